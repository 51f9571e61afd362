package asynqmw

import "github.com/lockbeat/lockbeat/renewer"

// HomeKey is homeKey.
const HomeKey = homeKey

// ErrOtherRedis is errOtherRedis.
var ErrOtherRedis = errOtherRedis

// Slots is slots, of a server with so many workers.
type Slots struct{ *slots }

// NewSlots returns the slots of a server with so many workers.
func NewSlots(workers int) Slots { return Slots{newSlots(workers)} }

// Take lets a task wait for a name.
func (s Slots) Take(k *renewer.Keeper, name string, last bool) bool {
	return s.take(waitingFor{keeper: k, name: name, last: last})
}

// Leave ends such a wait.
func (s Slots) Leave(k *renewer.Keeper, name string, last bool) {
	s.leave(waitingFor{keeper: k, name: name, last: last})
}

// Names is for how many names tasks wait, on last attempts and others.
func (s Slots) Names() int { return len(s.waiting) }
