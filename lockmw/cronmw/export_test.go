package cronmw

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

// SetClock gives a node's later jobs a clock.
func (n *Node) SetClock(clock func() time.Time) { n.clock = clock }

// Planned is a job that has not been checked, by which ticks are computed. It has asked the store
// for the time.
func Planned(
	k *renewer.Keeper, s Schedule, grace time.Duration, clock func() time.Time,
) (*Job, error) {
	j := &Job{book: ticks.NewBook(k, "cron", "planned"), schedule: s}
	j.book.Grace, j.book.Clock = grace, clock
	_, err := j.book.Look(context.Background(), time.Time{})
	return j, err
}

// Serve is Fire without the store and the runs: take is told of each tick that a call at this
// moment takes. sleep lets time pass until an instant of the store's clock.
func (j *Job) Serve(sleep func(until time.Time), take func(due time.Time)) {
	call, since := j.nextCall(), time.Time{}
	for due := j.due(since, call); !due.IsZero(); due = j.due(since, call) {
		if due.After(j.book.Now()) {
			sleep(due)
			continue
		}
		take(due)
		since = j.book.Now()
	}
}

// ByCron is a schedule as a cron in a zone asks it.
func ByCron(s Schedule, loc *time.Location) Schedule { return inZone{s, loc} }
