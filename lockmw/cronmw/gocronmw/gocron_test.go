package gocronmw_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw/gocronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bed is a store that nodes share, in a bubble.
type bed struct {
	renewer.NopObserver
	t     *testing.T
	store *memory.Store

	mu   sync.Mutex
	told map[renewer.Outcome]int
}

func inBubble(t *testing.T, f func(t *testing.T, b *bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, &bed{t: t, store: memory.New(), told: make(map[renewer.Outcome]int)})
	})
}

func (b *bed) Ran(_ context.Context, e renewer.Run) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e.Outcome != renewer.OutcomeAdded {
		b.told[e.Outcome]++
	}
}

func (b *bed) node() *cronmw.Node {
	b.t.Helper()
	k, err := renewer.New(b.store, renewer.Config{TTL: renewer.DefaultTTL, Observer: b})
	require.NoError(b.t, err)
	n, err := cronmw.New(b.t.Context(), k)
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		require.NoError(b.t, k.Shutdown(context.WithoutCancel(b.t.Context())))
		synctest.Wait()
	})
	return n
}

// scheduler is a gocron that runs until the test ends. That must be between two
// ticks: gocron's own Shutdown spins until jobs have ended, in which time
// stands still in a bubble.
func (b *bed) scheduler(loc *time.Location) gocron.Scheduler {
	b.t.Helper()
	s, err := gocron.NewScheduler(gocron.WithLocation(loc))
	require.NoError(b.t, err)
	s.Start()
	b.t.Cleanup(func() {
		synctest.Wait()
		require.NoError(b.t, s.Shutdown())
		synctest.Wait()
	})
	return s
}

func nothing(context.Context) error { return nil }

// elapse lets a time pass, by the clock of the bubble.
func elapse(d time.Duration) { <-time.After(d) }

// Five nodes, started at different times.
func TestOneRunATick(t *testing.T) {
	t.Parallel()
	for crontab, want := range map[string]int{ // in 40 days
		"0 */6 * * *": 160, "7 0 12 * * *": 40, "@every 24h": 40,
		"TZ=Asia/Tokyo 30 2 * * 1": 6,
	} {
		t.Run(crontab, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				for range 5 {
					_, err := gocronmw.AddFunc(b.node(), b.scheduler(time.UTC), crontab, "job",
						nothing)
					require.NoError(t, err)
					elapse(11 * time.Second)
				}
				elapse(40 * 24 * time.Hour)
				synctest.Wait()
				assert.Equal(t, map[renewer.Outcome]int{
					renewer.OutcomeRan: want, renewer.OutcomeSkipped: 4 * want,
				}, b.told)
			})
		})
	}
}

// A job each hour, where clocks are put back: the hour that comes twice has two
// ticks.
func TestClocksArePutBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		berlin, err := time.LoadLocation("Europe/Berlin")
		require.NoError(t, err)
		elapse(time.Until(time.Date(2000, 10, 29, 0, 30, 0, 0, berlin)))
		_, err = gocronmw.AddFunc(b.node(), b.scheduler(berlin), "0 * * * *", "job", nothing)
		require.NoError(t, err)
		elapse(5 * time.Hour)
		synctest.Wait()
		assert.Equal(t, map[renewer.Outcome]int{renewer.OutcomeRan: 5}, b.told)
	})
}

func TestRefusedJobs(t *testing.T) {
	t.Parallel()
	for crontab, want := range map[string]string{
		"every now and then": "expected 5 to 6 fields",
		"0 0 31 2 *":         "the schedule has no tick",
	} {
		inBubble(t, func(t *testing.T, b *bed) {
			s := b.scheduler(time.UTC)
			_, err := gocronmw.AddFunc(b.node(), s, crontab, "job", nothing)
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.ErrorContains(t, err, want)
			assert.Empty(t, s.Jobs())
		})
	}
}

// RunNow runs the job under its lock, and takes no tick; a job that is removed
// ends.
func TestRunNowAndRemove(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		s := b.scheduler(time.UTC)
		var dues []string
		job, err := gocronmw.AddFunc(b.node(), s, "* * * * *", "job",
			func(ctx context.Context) error {
				due := cronmw.Current(ctx).Due
				dues = append(dues, fmt.Sprint(due.Minute(), due.IsZero()))
				if due.IsZero() {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			})
		require.NoError(t, err)
		elapse(59 * time.Second)
		require.NoError(t, job.RunNow())
		elapse(time.Second)
		synctest.Wait()
		require.ErrorIs(t, job.RunNow(), renewer.ErrBusy)
		assert.Equal(t, []string{"0 true", "1 false"}, dues)
		require.NoError(t, s.RemoveJob(job.ID()))
		synctest.Wait()
		assert.Equal(t, map[renewer.Outcome]int{renewer.OutcomeRan: 1}, b.told)
	})
}
