package ticks_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on each machine

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
)

// zones are those whose clocks are put forward and back in every way there is,
// but for those that robfig/cron's parser reads otherwise: see docs/cron.md.
var zones = []string{
	"Europe/Berlin",
	"Europe/Dublin",     // winter is the time that is put back
	"America/St_Johns",  // half an hour from full hours
	"America/Havana",    // at midnight, back at one
	"America/Santiago",  // at midnight, in the south
	"Africa/Cairo",      // at midnight, back at midnight
	"Africa/Casablanca", // back for Ramadan
	"Asia/Kolkata",      // never
	"Pacific/Chatham",   // three quarters of an hour from full hours
}

// crontabs have ticks where clocks are put forward and back. Each reads a clock
// on the wall.
var crontabs = map[string]func(w time.Time) bool{
	"30 2 * * *": func(w time.Time) bool { return w.Hour() == 2 && w.Minute() == 30 },
	"0 0 * * *":  func(w time.Time) bool { return w.Hour() == 0 && w.Minute() == 0 },
	"0 * * * *":  func(w time.Time) bool { return w.Minute() == 0 },
	"15 1-3 * * *": func(w time.Time) bool {
		return w.Hour() >= 1 && w.Hour() <= 3 && w.Minute() == 15
	},
	"30 1 * * 0": func(w time.Time) bool {
		return w.Weekday() == time.Sunday && w.Hour() == 1 && w.Minute() == 30
	},
	"@every 90m": func(w time.Time) bool { return w.Truncate(90 * time.Minute).Equal(w) },
}

// The ticks around each change of clocks are what a clock on the wall shows,
// also for a node that asks from long before.
func TestClocksArePutForwardAndBack(t *testing.T) {
	t.Parallel()
	const around = 27 * time.Hour
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			loc, err := time.LoadLocation(zone)
			require.NoError(t, err)
			for spec, due := range crontabs {
				parsed, err := cron.ParseStandard(spec)
				require.NoError(t, err)
				s := ticks.Crontab(parsed, loc)
				change := time.Date(2023, 1, 1, 0, 0, 0, 0, loc)
				for year := 2024; !change.IsZero() && change.Year() <= year; {
					agree(t, s, due, change.Add(-around).In(loc), change.Add(around))
					_, change = change.ZoneBounds()
				}
			}
		})
	}
}

func agree(
	t *testing.T, s ticks.Schedule, due func(time.Time) bool, from, to time.Time,
) {
	t.Helper()
	last, count := from, 0
	for at := from.Add(15 * time.Minute); at.Before(to); at = at.Add(15 * time.Minute) {
		if due(at) {
			last, count = at, count+1
			require.True(t, ticks.Last(s, from, at).Equal(at), "%v", at)
		}
	}
	require.Equal(t, count, ticks.Count(s, from, to))
	if count > 0 {
		afar := from.Add(-100 * 24 * time.Hour)
		require.True(t, ticks.Last(s, afar, to.Add(-1)).Equal(last), "%v", to)
	}
}
