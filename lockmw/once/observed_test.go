package once_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// attempts are what an observer hears.
type attempts struct {
	renewer.NopObserver
	mu   sync.Mutex
	runs []renewer.Run
}

func (a *attempts) Ran(_ context.Context, e renewer.Run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runs = append(a.runs, e)
}

// The observer hears of each attempt that has run, however it ended, and of no
// call whose answer was on record.
func TestAttemptsAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		heard := new(attempts)
		k, err := renewer.New(script.New(), renewer.Config{
			TTL: renewer.DefaultTTL, Observer: heard,
		})
		require.NoError(t, err)
		work := func(ctx context.Context) (int, error) {
			<-time.After(time.Second)
			switch once.Current(ctx).Number {
			case 1:
				return 0, errOperation
			case 2:
				panic("no luck")
			}
			return 7, nil
		}
		for range 3 {
			func() {
				defer func() { _ = recover() }()
				_, _ = once.Do(t.Context(), k, "a", work, lockmw.Operation("bill"))
			}()
		}
		require.Len(t, heard.runs, 3)
		for i, run := range heard.runs {
			assert.Equal(t, "bill", run.Job)
			assert.Equal(t, i+1, run.Attempt)
			assert.Equal(t, time.Second, run.Took)
			assert.Equal(t, renewer.OutcomeRan, run.Outcome)
		}
		require.ErrorIs(t, heard.runs[0].Err, errOperation)
		require.Error(t, heard.runs[1].Err)
		require.NoError(t, heard.runs[2].Err)
		assert.Equal(t, time.Now(), heard.runs[2].LastSuccess)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}
