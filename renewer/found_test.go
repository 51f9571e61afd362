package renewer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A lease that is taken says what was found in its place: whether a heartbeat,
// an extension or the release finds it. Its context ends at the answer that
// says so; nothing more is asked.
func TestWhatWasFoundInPlaceOfALease(t *testing.T) {
	t.Parallel()
	answers := map[string]struct {
		step   script.Step
		found  string
		holder store.Holder
		text   string
	}{
		"deleted": {
			script.Gone(), "deleted",
			store.Holder{},
			"the store has no key for it any more",
		},
		"overwritten": {
			script.Overwritten(), "overwritten",
			store.Holder{},
			"another program has written over its key",
		},
		"owner": {
			script.Taken(other, time.Minute), "owner", other,
			"another owner has the lock: " + other.String(),
		},
		"owner, unknown": {
			script.Taken(store.Holder{}, time.Minute), "owner",
			store.Holder{},
			"another owner has the lock",
		},
	}
	finders := map[string]func(*testing.T, *script.Store, *renewer.Lease, script.Step) error{
		"heartbeat": func(_ *testing.T, s *script.Store, l *renewer.Lease, step script.Step) error {
			s.Script(script.Renew, step)
			<-l.Context().Done()
			return l.Err()
		},
		"extension": func(t *testing.T, s *script.Store, l *renewer.Lease, step script.Step) error {
			s.Script(script.Renew, step)
			return l.Extend(t.Context(), time.Minute)
		},
		"release": func(t *testing.T, s *script.Store, l *renewer.Lease, step script.Step) error {
			s.Script(script.Release, step)
			return l.Release(t.Context())
		},
	}
	for by, find := range finders {
		for what, a := range answers {
			t.Run(by+", "+what, func(t *testing.T) {
				t.Parallel()
				inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
					request := renewer.Request{}
					if by == "extension" {
						request.Manual = time.Minute
					}
					l := acquire(t, k, "a", request)
					err := find(t, s, l, a.step)
					require.ErrorIs(t, err, renewer.ErrLost)
					var lost *renewer.LostError
					require.ErrorAs(t, err, &lost)
					want := renewer.LostError{
						Name: "a", Reason: renewer.ReasonTaken, Found: a.found, Holder: a.holder,
						Fence: l.Fence(),
					}
					require.Equal(t, want, *lost)
					require.EqualError(t, err, `lockbeat: lease on "a" lost: `+a.text)
					_ = l.Release(t.Context())
					synctest.Wait() // the observer hears of it behind the operation
					told := heard[renewer.Lost](r)
					require.Len(t, told, 1)
					require.Equal(t, want, *told[0].Err)
					waitFor(time.Minute)
					require.Len(t, s.Calls(script.Acquire), 1, "nothing more is asked")
					require.LessOrEqual(t, len(s.Calls(script.Release)), 1)
				})
			})
		}
	}
}
