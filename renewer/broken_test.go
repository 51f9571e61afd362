package renewer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A lease that was broken is lost at the answer that says so, and its key is freed when the
// operation has returned, before Release returns. By force it was freed before.
func TestABrokenLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken   *store.Broken
		reason   renewer.Reason
		text     string
		releases int
		left     bool
	}{
		"broken": {
			&store.Broken{By: "alice", Why: "hangs"}, renewer.ReasonBroken,
			`lockbeat: lease on "a" lost: it was broken by alice: hangs`, 1, true,
		},
		"by force": {
			&store.Broken{By: "alice", Why: "hangs", Force: true}, renewer.ReasonBroken,
			`lockbeat: lease on "a" lost: it was broken, by force, by alice: hangs`, 0, false,
		},
		"by whom is not known": {
			nil, renewer.ReasonBroken, `lockbeat: lease on "a" lost: it was broken`, 1, true,
		},
		"replaced": {
			&store.Broken{By: "web-2 pid 7", Replaced: true}, renewer.ReasonReplaced,
			`lockbeat: lease on "a" lost: a newer call has taken its place: web-2 pid 7`, 1, true,
		},
	} {
		for each, release := range map[string]func(*renewer.Keeper, *renewer.Lease) error{
			"Release": func(_ *renewer.Keeper, l *renewer.Lease) error {
				return l.Release(t.Context())
			},
			"ReleaseEach": func(k *renewer.Keeper, l *renewer.Lease) error {
				return k.ReleaseEach(t.Context(), []*renewer.Lease{l})[0]
			},
		} {
			t.Run(name+", "+each, func(t *testing.T) {
				t.Parallel()
				inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
					s.Script(script.Renew, script.Pass(), script.BrokenBy(c.broken))
					l := acquire(t, k, "a")
					at, lost := lostAt(t, l)
					assertInstant(t, s.Calls(script.Renew)[1].At, at, "at the answer")
					assert.Equal(t, c.reason, lost.Reason)
					assert.Equal(t, c.text, lost.Error())
					assert.Equal(t, c.left, lost.Left > 0, "so long the key is its own still")
					waitFor(time.Second)
					assert.Empty(t, s.Calls(script.Release), "its operation has not returned")
					require.Equal(t, error(lost), release(k, l))
					assert.Len(t, s.Calls(script.Release), c.releases)
				})
			})
		}
	}
}
