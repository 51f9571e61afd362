package jobs

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/renewer"
)

// Ask asks a Queue as lines do: whose it is, what a job does, and to run it.
func Ask(q Queue, queue, id string) (errs [3]error) {
	of, job := marked{q}, contract.Task{Queue: queue, ID: id}
	_, errs[0] = of.home(context.Background(), job)
	_, errs[1] = of.state("name", job)
	errs[2] = of.run(job)
	return errs
}

// Line is line, and so on.
type (
	Line  = line
	Visit = visit
	Place = place
)

// NewLine is newLine.
func NewLine(k *renewer.Keeper, q Queue) *Line { return newLine(k, q) }

// Visit is visit of a task that can go back.
func (l *line) Visit(wants []names.Want, of Delivery, backAs string) *Visit {
	return l.visit(wants, of, backAs, false)
}

// Stand is stand, and so on.
func (v *visit) Stand(ctx context.Context, moment time.Duration) (time.Duration, *Place) {
	return v.stand(ctx, moment)
}
func (v *visit) Granted()                                    { v.granted() }
func (v *visit) Over()                                       { v.over() }
func (v *visit) Copied(ok bool)                              { v.copied(ok) }
func (v *visit) Refused(err error, busy bool) (bool, *Place) { return v.refused(err, busy) }

// Situation is situation.
type Situation = situation

// What a job does without its adapter.
const (
	OutcomeAgain = outcomeAgain
	OutcomePause = outcomePause
)

// Decide is decide.
func Decide(s Situation) Outcome { return decide(s) }

// Take lets a job wait for a name.
func (s *Slots) Take(k *renewer.Keeper, name string, last bool) bool {
	return s.take(waitingFor{keeper: k, name: name, last: last})
}

// Leave ends such a wait.
func (s *Slots) Leave(k *renewer.Keeper, name string, last bool) {
	s.leave(waitingFor{keeper: k, name: name, last: last})
}

// Names is for how many names jobs wait, on last attempts and others.
func (s *Slots) Names() int { return len(s.waiting) }
