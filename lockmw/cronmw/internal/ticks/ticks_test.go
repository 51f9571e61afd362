package ticks_test

import (
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
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

func TestNewGrace(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want, shortest, grace time.Duration
		err                   string
	}{
		"defaults, nothing known":   {grace: ticks.MaxGrace},
		"defaults, ticks far apart": {shortest: 24 * time.Hour, grace: ticks.MaxGrace},
		"defaults, ticks close":     {shortest: 2 * time.Second, grace: time.Second},
		"defaults, ticks as close as may be": {
			shortest: 2 * time.Millisecond, grace: time.Millisecond,
		},
		"given":                {want: time.Minute, shortest: time.Hour, grace: time.Minute},
		"given, nothing known": {want: time.Hour, grace: time.Hour},
		"the gap":              {want: time.Minute, shortest: time.Minute, grace: time.Minute},
		"fractions are cut off": {
			want: time.Minute - 1, shortest: time.Minute, grace: time.Minute - time.Millisecond,
		},
		"negative": {want: -1, err: "it can't be negative"},
		"above the gap": {
			want: time.Minute + 1, shortest: time.Minute, err: "take at most that, or 0 for the " +
				"default (30s)",
		},
		"too short":           {want: time.Millisecond - 1, err: "it must be at least 1ms"},
		"ticks too frequent":  {shortest: time.Millisecond, err: "Grace comes to 0s"},
		"half of an odd time": {shortest: 5 * time.Millisecond, grace: 2 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ticks.NewGrace(c.want, c.shortest)
			if c.err != "" {
				require.ErrorIs(t, err, renewer.ErrConfig)
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.grace, got)
		})
	}
}

func TestLast(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		schedule        ticks.Schedule
		from, now, want time.Duration // after noon; want 0: none
	}{
		"due now":             {at{5}, 0, 5, 5},
		"not yet":             {at{5}, 0, 4, 0},
		"not later than from": {at{5}, 5, 9, 0},
		"the last of several": {at{1, 2, 3, 9}, 0, 4, 3},
		"long ago":            {at{time.Hour, 3 * time.Hour}, 0, 900 * day, 3 * time.Hour},
		"long before":         {at{-1}, 0, 900 * day, 0},
		"frequent, long":      {every(time.Second), 0, 7*day + 1, 7 * day},
		"no tick at all":      {at{}, 0, day, 0},
		"now before from":     {at{5}, 9, 7, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ticks.Last(c.schedule, noon.Add(c.from), noon.Add(c.now))
			if c.want == 0 {
				assert.Zero(t, got)
				return
			}
			assert.Equal(t, noon.Add(c.want), got)
		})
	}
}

// A record that any program may have written says that the job was known two
// thousand years ago.
func TestLastFromAfar(t *testing.T) {
	t.Parallel()
	assert.Zero(t, ticks.Last(at{time.Hour}, time.Time{}, noon))
	assert.Equal(t, noon, ticks.Last(every(time.Minute), time.Time{}, noon))
}

func TestCount(t *testing.T) {
	t.Parallel()
	count := func(from, to time.Duration) int {
		return ticks.Count(every(time.Second), noon.Add(from), noon.Add(to))
	}
	assert.Equal(t, 0, count(0, time.Second), "the ends do not count")
	assert.Equal(t, 1, count(0, time.Second+1))
	assert.Equal(t, 59, count(0, time.Minute))
	assert.Equal(t, 0, count(time.Minute, 0))
	assert.Equal(t, ticks.MostCounted, count(0, 24*time.Hour))
	assert.Equal(t, 1, ticks.Count(at{5}, noon, noon.Add(time.Hour)), "and then none")
}
