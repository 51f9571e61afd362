package ticks_test

import (
	"context"
	"errors"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is when schedules are asked.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// at has a tick at each of some offsets from noon.
type at []time.Duration

func (a at) Next(t time.Time) time.Time {
	i := sort.Search(len(a), func(i int) bool { return noon.Add(a[i]).After(t) })
	if i == len(a) {
		return time.Time{}
	}
	return noon.Add(a[i])
}

// schedule is a function that is one.
type schedule func(time.Time) time.Time

func (s schedule) Next(t time.Time) time.Time { return s(t) }

func every(d time.Duration) schedule {
	return func(t time.Time) time.Time { return t.Truncate(d).Add(d) }
}

func TestShortest(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		schedule ticks.Schedule
		want     time.Duration
		err      string
	}{
		"even": {schedule: every(time.Minute), want: time.Minute},
		"uneven": {schedule: at{
			time.Hour, 3 * time.Hour,
			3*time.Hour + time.Second, day,
		}, want: time.Second},
		"the shortest first": {
			schedule: at{time.Second, 3 * time.Second, day},
			want:     2 * time.Second,
		},
		"one tick": {schedule: at{time.Hour}},
		"two ticks": {
			schedule: at{time.Hour, 3 * time.Hour},
			want:     2 * time.Hour,
		},
		"none":                       {schedule: at{}, err: "the schedule has no tick"},
		"the next one in five years": {schedule: at{time.Hour, 5 * 366 * day}},
		"the next one in under four": {
			schedule: at{time.Hour, 4 * 365 * day},
			want:     4*365*day - time.Hour,
		},
		"shortest beyond what is read": {schedule: oddOneAt(4000, 3000), want: time.Minute},
		"shortest at the end of it":    {schedule: oddOneAt(4000, 2999), want: time.Second},
		"stands still": {schedule: schedule(func(time.Time) time.Time {
			return noon
		}), err: "stands still"},
		"goes back": {schedule: schedule(func(t time.Time) time.Time {
			return t.Add(-1)
		}), err: "stands still"},
		"from now on": {schedule: schedule(func(t time.Time) time.Time {
			return t.Add(time.Minute)
		}), err: "depend on when it is asked"},
		"from now on, then no more":       {schedule: few(3), err: "depend on when it is asked"},
		"from now on, too few to be sure": {schedule: few(2), want: time.Minute},
		"odd gaps where clocks are put forward": {
			schedule: schedule(func(t time.Time) time.Time {
				// the first two gaps are not the same for everybody
				if t.Before(noon.Add(2 * time.Minute)) {
					return t.Add(time.Minute)
				}
				return every(time.Minute)(t)
			}), want: time.Minute,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ticks.Shortest(c.schedule, noon)
			if c.err != "" {
				require.ErrorIs(t, err, renewer.ErrConfig)
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

// oddOneAt has n ticks a minute apart, but for one gap of a second.
func oddOneAt(n, second int) at {
	a := at{time.Minute}
	for i := range n {
		gap := time.Minute
		if i == second {
			gap = time.Second
		}
		a = append(a, a[i]+gap)
	}
	return a
}

// few has n gaps of a minute, from whenever it is asked.
func few(n int) schedule {
	end := noon.Add(time.Duration(n+1) * time.Minute)
	return func(t time.Time) time.Time {
		if next := t.Add(time.Minute); !next.After(end) {
			return next
		}
		return time.Time{}
	}
}

func TestNewHold(t *testing.T) {
	t.Parallel()
	const under = time.Minute - time.Millisecond
	for name, c := range map[string]struct {
		least, shortest time.Duration
		want            ticks.Hold
		err             string
	}{
		"defaults, nothing known": {want: ticks.Hold{
			Least: ticks.DefaultHold,
			Grace: ticks.DefaultHold / 4,
		}},
		"defaults, ticks far apart": {
			shortest: time.Hour,
			want:     ticks.Hold{Least: ticks.DefaultHold, Grace: ticks.DefaultHold / 4},
		},
		"defaults, twice as far": {
			shortest: 2 * ticks.DefaultHold,
			want:     ticks.Hold{Least: ticks.DefaultHold, Grace: ticks.DefaultHold / 4},
		},
		"defaults, ticks close": {
			shortest: 2 * time.Second,
			want:     ticks.Hold{Least: time.Second, Grace: 250 * time.Millisecond},
		},
		"given": {
			least: time.Minute, shortest: time.Hour,
			want: ticks.Hold{Least: time.Minute, Grace: 15 * time.Second},
		},
		"given, nothing known": {
			least: time.Hour,
			want:  ticks.Hold{Least: time.Hour, Grace: 15 * time.Minute},
		},
		"a little under the gap": {
			least: under, shortest: time.Minute,
			want: ticks.Hold{Least: under, Grace: under / 4},
		},
		"fractions are cut off": {
			least: time.Minute - 1, shortest: time.Minute,
			want: ticks.Hold{Least: under, Grace: under / 4},
		},
		"the least of all": {
			least: 4 * time.Millisecond,
			want:  ticks.Hold{Least: 4 * time.Millisecond, Grace: time.Millisecond},
		},
		"negative": {least: -1, err: "it can't be negative"},
		"the gap": {
			least: time.Minute, shortest: time.Minute,
			err: "would swallow the next: take at most half of that (30s)",
		},
		"above the gap": {
			least: time.Hour, shortest: time.Minute,
			err: "would swallow the next",
		},
		"too short": {least: 3 * time.Millisecond, err: "it must be at least 4ms"},
		"too short for a short gap": {
			shortest: 6 * time.Millisecond,
			err:      "HoldAtLeast comes to 3ms: it must be at least 4ms",
		},
		"too short when it's cut": {
			least: 4*time.Millisecond - 1,
			err:   "HoldAtLeast comes to 3ms",
		},
		"a millisecond's least half": {
			shortest: 8 * time.Millisecond,
			want:     ticks.Hold{Least: 4 * time.Millisecond, Grace: time.Millisecond},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ticks.NewHold(c.least, c.shortest)
			if c.err != "" {
				require.ErrorIs(t, err, renewer.ErrConfig)
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestLate(t *testing.T) {
	t.Parallel()
	hold := ticks.Hold{Least: 40 * time.Second, Grace: 10 * time.Second}
	for name, c := range map[string]struct {
		schedule ticks.Schedule
		after    time.Duration // after noon
		want     bool
	}{
		"on time":                {at{0}, 0, false},
		"early":                  {at{0}, -1, true},
		"within the grace":       {at{0}, 10*time.Second - 1, false},
		"at its end":             {at{0}, 10 * time.Second, true},
		"a tick later":           {at{0, time.Minute}, time.Minute, false},
		"between two ticks":      {at{0, time.Minute}, 30 * time.Second, true},
		"after the last":         {at{0}, time.Hour, true},
		"no tick at all":         {at{}, 0, true},
		"two within the grace":   {at{0, time.Second}, 2 * time.Second, false},
		"one past, one too soon": {at{0, 11 * time.Second}, 10*time.Second + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, c.want, hold.Late(c.schedule, noon.Add(c.after)))
		})
	}
}

func TestSettleCheck(t *testing.T) {
	t.Parallel()
	for d, ok := range map[time.Duration]bool{
		-time.Hour: false, -1: false, 0: true, 1: true,
		ticks.DefaultSettle: true, time.Hour: true,
	} {
		err := ticks.Settle(d).Check()
		assert.Equal(t, ok, err == nil, "%v: %v", d, err)
		if !ok {
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.ErrorContains(t, err, "can't be negative")
		}
	}
}

func TestSettlePass(t *testing.T) {
	t.Parallel()
	errEnded := errors.New("the lead is lost")
	for name, c := range map[string]struct {
		settle time.Duration
		ends   time.Duration // when the context does: 0 for never, -1 for already
		took   time.Duration
		want   error
	}{
		"it passes": {settle: time.Second, took: time.Second},
		"none":      {},
		"ends before": {
			settle: time.Hour, ends: time.Minute, took: time.Minute,
			want: errEnded,
		},
		"ends afterwards":         {settle: time.Minute, ends: time.Hour, took: time.Minute},
		"has ended":               {settle: time.Hour, ends: -1, want: errEnded},
		"has ended, none to pass": {ends: -1, want: errEnded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				switch {
				case c.ends < 0:
					cancel(errEnded)
				case c.ends > 0:
					defer time.AfterFunc(c.ends, func() { cancel(errEnded) }).Stop()
				}
				begun := time.Now()
				assert.Equal(t, c.want, ticks.Settle(c.settle).Pass(ctx))
				assert.Equal(t, c.took, time.Since(begun))
			})
		})
	}
}
