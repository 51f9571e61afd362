package jobs

import (
	"github.com/lockbeat/lockbeat/lockmw/internal/line"
	"github.com/lockbeat/lockbeat/renewer"
)

// Marked is a Queue as lines call it.
func Marked(q Queue) line.Queue { return marked{q} }

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
