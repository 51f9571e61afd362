package repeat_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// faults is an observer that keeps what it is told of trouble.
type faults struct {
	renewer.NopObserver

	told []renewer.Fault
}

func (o *faults) Fault(f renewer.Fault) { o.told = append(o.told, f) }

// An answer went out that was not on record, since the store was down. The next
// request with the key was carried out again and had another answer, and nobody
// was told.
func TestAnAnswerThatIsNotOnRecordIsToldOf(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"it goes out": false, "and its lock is lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, o := script.New(), new(faults)
				k, err := renewer.New(s,
					renewer.Config{TTL: renewer.DefaultTTL, Observer: o, Log: renewer.Silent})
				require.NoError(t, err)
				defer func() { assert.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) }()
				g, err := repeat.New(k, repeat.Defaults(1))
				require.NoError(t, err)
				for range 2 { // each time
					outcome, err := g.Do(t.Context(), g.Request("ann", "secret", "pen"), repeat.Work{
						Operation: "order",
						Run: func(ctx context.Context) repeat.Answer {
							down := script.Fail(errors.New("connection refused"))
							s.Default(script.Write, down)
							if lost {
								s.Default(script.Renew, down)
								<-ctx.Done()
							}
							return final("done")
						},
					})
					s.Default(script.Write, script.Pass())
					s.Default(script.Renew, script.Pass())
					assert.Equal(t, repeat.OutcomeOwn, outcome)
					require.NoError(t, err)
				}
				require.Len(t, o.told, 2)
				f := o.told[0]
				assert.Equal(t, "record an answer", f.Doing)
				assert.Contains(t, f.Name, "idempotency:", "so that a log hides and limits it")
				require.ErrorIs(t, f.Err, once.ErrNotRecorded)
				assert.Equal(t, lost, errors.Is(f.Err, renewer.ErrLost))
				assert.Contains(t, f.Err.Error(), `"order"`)
				assert.NotContains(t, f.Err.Error()+f.Name, "secret")
			})
		})
	}
}
