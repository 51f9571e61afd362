package cronmw_test

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
)

// Where clocks are put forward and back, two nodes that call at different moments, one of them with
// a clock that is off, agree on the ticks: none is run twice, and none is missed.
func TestClocksArePutForwardAndBack(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{
		"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Santiago",
		"Africa/Cairo", "Pacific/Auckland", "Asia/Kolkata",
	} {
		for _, spec := range []string{"30 2 * * *", "0 0 * * *", "*/20 * * * *", "15 1-3 * * *"} {
			t.Run(zone+" "+spec, func(t *testing.T) {
				t.Parallel()
				loc, err := time.LoadLocation(zone)
				require.NoError(t, err)
				s, err := cron.ParseStandard(spec)
				require.NoError(t, err)
				for _, eve := range changes(loc) {
					inFleet(t, func(t *testing.T, f *fleet) {
						f.ahead = eve.Sub(start) // the store's clock is at the eve
						for _, off := range []time.Duration{0, 7 * minute} {
							c := quiet(cron.WithLocation(loc))
							n := f.add(f.ahead + off).node
							j, err := n.Job("job", inLocation{s, loc}, nothing)
							require.NoError(t, err)
							c.Schedule(skewed{inLocation{s, loc}, f.ahead + off}, j)
							running(t, c)
						}
						elapse(54 * time.Hour)
						ran := map[int64]int{}
						f.log.mu.Lock()
						defer f.log.mu.Unlock()
						for _, tick := range f.log.ticks {
							if tick.Outcome == cronmw.OutcomeRan {
								ran[tick.Due.Unix()]++
							}
							assert.Zero(t, tick.Missed, "%v", tick.Due.In(loc))
						}
						for due, runs := range ran {
							assert.Equal(t, 1, runs, "%v", time.Unix(due, 0).In(loc))
						}
						assert.NotEmpty(t, ran)
					})
				}
			})
		}
	}
}

// inLocation asks a schedule by times of a zone.
type inLocation struct {
	cron.Schedule

	loc *time.Location
}

func (l inLocation) Next(t time.Time) time.Time { return l.Schedule.Next(t.In(l.loc)) }

// changes are the evenings before clocks are changed in 2024 and 2025.
func changes(loc *time.Location) (eves []time.Time) {
	from := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)
	for h := range 2 * 366 * 24 {
		at := from.Add(time.Duration(h) * time.Hour)
		_, before := at.In(loc).Zone()
		if _, after := at.Add(time.Hour).In(loc).Zone(); before != after {
			eves = append(eves, at.Add(-12*time.Hour))
		}
	}
	return eves
}
