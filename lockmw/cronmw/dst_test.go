package cronmw_test

import (
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on each machine

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/testutil/suite"
)

// zones are those whose clocks are put forward and back in every way there is.
var zones = []string{
	"Europe/Berlin",
	"Europe/Dublin",       // winter is the time that is put back
	"Europe/Istanbul",     // until 2016
	"America/New_York",    //
	"America/St_Johns",    // half an hour from full hours
	"America/Mexico_City", // until 2022
	"America/Havana",      // at midnight, back at one
	"America/Santiago",    // at midnight, in the south
	"America/Sao_Paulo",   // at midnight, in the south, until 2019
	"Africa/Cairo",        // at midnight, back at midnight, again from 2023 on
	"Africa/Casablanca",   // back for Ramadan
	"Asia/Beirut",         // at midnight, back at midnight
	"Asia/Tehran",         // half an hour from full hours, at midnight, until 2022
	"Asia/Kolkata",        // never
	"Australia/Lord_Howe", // by half an hour
	"Pacific/Chatham",     // three quarters of an hour from full hours
	"Pacific/Apia",        // until 2021, west of the date line before
}

// crontab is one to try. due reads a clock on the wall.
type crontab struct {
	spec  string
	grace time.Duration
	// around is for how long before and after a change of clocks it is looked at.
	around time.Duration
	due    func(wall time.Time) bool
}

const hour = time.Hour

// crontabs have ticks where clocks are put forward and back.
var crontabs = []crontab{
	{"30 2 * * *", 15 * minute, 27 * hour, func(w time.Time) bool {
		return w.Hour() == 2 && w.Minute() == 30
	}},
	{"0 0 * * *", 15 * minute, 27 * hour, func(w time.Time) bool {
		return w.Hour() == 0 && w.Minute() == 0
	}},
	{"0 * * * *", 15 * minute, 4 * hour, func(w time.Time) bool { return w.Minute() == 0 }},
	{"*/15 * * * *", 450 * time.Second, 2 * hour, func(w time.Time) bool {
		return w.Minute()%15 == 0
	}},
	{"15 1-3 * * *", 15 * minute, 4 * hour, func(w time.Time) bool {
		return w.Hour() >= 1 && w.Hour() <= 3 && w.Minute() == 15
	}},
	{"30 1 * * 0", 15 * minute, 27 * hour, func(w time.Time) bool {
		return w.Weekday() == time.Sunday && w.Hour() == 1 && w.Minute() == 30
	}},
	{"45 23 * 3,10,11 6", 15 * minute, 27 * hour, func(w time.Time) bool {
		return w.Weekday() == time.Saturday && w.Hour() == 23 && w.Minute() == 45 &&
			slices.Contains([]time.Month{time.March, time.October, time.November}, w.Month())
	}},
	{"0 0 1 * *", 15 * minute, 27 * hour, func(w time.Time) bool {
		return w.Day() == 1 && w.Hour() == 0 && w.Minute() == 0
	}},
	{"@every 90m", 15 * minute, 6 * hour, func(w time.Time) bool {
		return w.Truncate(90 * minute).Equal(w)
	}},
}

// quirks are where robfig/cron reads a crontab otherwise than from a clock on the wall: where
// clocks change by half an hour, or a day has no midnight. See docs/cron.md.
var quirks = map[string][]string{
	"Australia/Lord_Howe": {"0 0 * * *", "30 1 * * 0"},
	"Asia/Beirut":         {"30 1 * * 0"},
	"Asia/Tehran":         {"30 1 * * 0", "45 23 * 3,10,11 6"},
}

// firstYear is of those that are looked at, up to 2035.
var firstYear = 2015

// changes are the changes of clocks in these years, and the new years.
func changes(loc *time.Location) (all []time.Time) {
	for year := firstYear; year <= suite.Size(2020, 2035); year++ {
		at := time.Date(year, 1, 1, 0, 0, 0, 0, loc)
		for !at.IsZero() && at.Year() == year {
			all = append(all, at)
			_, at = at.ZoneBounds()
		}
	}
	return all
}

// 17 zones, nine crontabs, and each change of clocks in 21 years, 6 in a short run. The ticks are
// what a clock on the wall shows. A node takes these and no others, whatever its own clock shows:
// so nodes agree on them, and each is run. A node that was away for long finds the same.
func TestClocksArePutForwardAndBack(t *testing.T) {
	t.Parallel()
	require.Len(t, zones, 17)
	for _, zone := range zones {
		t.Run(zone, func(t *testing.T) {
			t.Parallel()
			loc, err := time.LoadLocation(zone)
			require.NoError(t, err)
			inBubble(t, func(t *testing.T, b *bed) {
				changes := changes(loc)
				for _, c := range crontabs {
					p := b.plan(c, loc)
					for _, change := range changes {
						p.checks(t, change.Add(-c.around-1), change.Add(c.around))
					}
				}
			})
		})
	}
}

// plan is a crontab in a zone, on nodes at whatever time.
type plan struct {
	crontab

	loc      *time.Location
	schedule cronmw.Schedule
	now      time.Time                     // by the store's clock
	nodes    map[time.Duration]*cronmw.Job // by how much their clocks are ahead
}

func (b *bed) plan(c crontab, loc *time.Location) *plan {
	b.t.Helper()
	s, err := cron.ParseStandard(c.spec)
	require.NoError(b.t, err)
	if every, ok := s.(cron.ConstantDelaySchedule); ok {
		s = cronmw.Every(every.Delay)
	}
	p := &plan{
		crontab: c, loc: loc, schedule: cronmw.ByCron(s, loc), now: time.Now(),
		nodes: make(map[time.Duration]*cronmw.Job),
	}
	for _, ahead := range []time.Duration{7 * minute, -47 * minute} {
		clock := func() time.Time { return p.now.Add(ahead) }
		p.nodes[ahead], err = cronmw.Planned(b.keeper("node"), p.schedule, c.grace, clock)
		require.NoError(b.t, err)
	}
	return p
}

// checks that the ticks between two instants are those that a clock on the wall has.
func (p *plan) checks(t *testing.T, from, to time.Time) {
	t.Helper()
	var want []time.Time
	for at := from.Add(1); at.Before(to); at = at.Add(15 * minute) {
		if wall := at.In(p.loc); p.due(wall) {
			want = append(want, at.UTC())
		}
	}
	quirk := slices.Contains(quirks[p.loc.String()], p.spec)
	if quirk { // what the parser names is a tick, too
		for at := p.schedule.Next(from); at.Before(to); at = p.schedule.Next(at) {
			want = append(want, at.UTC())
		}
	}
	for ahead, node := range p.nodes {
		taken := p.taken(node, skewed{p.schedule, ahead}, from, to)
		for due := range taken {
			if !slices.Contains(want, due) {
				require.Fail(t, "no tick", "%v: %v, %v ahead", p.spec, due, ahead)
			}
		}
		require.True(t, quirk || len(taken) == len(want), "%v: %d of %d, %v ahead, up to %v",
			p.spec,
			len(taken), len(want), ahead, to)
	}
	last := ticks.Last(p.schedule, from, to.Add(-1))
	if afar := ticks.Last(p.schedule, from.Add(-100*24*hour), to.Add(-1)); afar.After(from) {
		require.Equal(t, last, afar)
	} else {
		require.Zero(t, last)
	}
	if !quirk {
		require.Equal(t, len(want), ticks.Count(p.schedule, from, to))
		require.True(t, last.IsZero() || last.Equal(want[len(want)-1]))
	}
}

// taken are the ticks between two instants that a node takes, which is called by its own clock.
func (p *plan) taken(
	node *cronmw.Job, calls cronmw.Schedule, from, to time.Time,
) map[time.Time]bool {
	all := make(map[time.Time]bool)
	call := ticks.Last(calls, from.Add(-300*24*hour), from)
	for ; call.Before(to.Add(p.grace)); call = calls.Next(call) {
		p.now = call
		node.Serve(func(until time.Time) { p.now = until }, func(due time.Time) {
			if due.After(from) && due.Before(to) {
				all[due.UTC()] = true
			}
		})
	}
	return all
}

// inLocation asks a schedule by times of a zone.
type inLocation struct {
	cron.Schedule

	loc *time.Location
}

func (l inLocation) Next(t time.Time) time.Time { return l.Schedule.Next(t.In(l.loc)) }
