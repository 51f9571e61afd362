package renewer

import (
	"math/rand/v2"
	"time"
)

// waker tells a loop that sleeps until some instant that something earlier has come up. It is told seldom: a loop that finds
// nothing to do at its instant just sleeps on, so leases that come and go within an interval wake nobody. at is guarded by
// Keeper.mu.
type waker struct {
	c  chan struct{}
	at instant // when the loop wakes by itself
}

func newWaker() waker { return waker{c: make(chan struct{}, 1), at: never} }

// wakeBy makes sure that the loop is awake at an instant. Under Keeper.mu.
func (w *waker) wakeBy(at instant) {
	if at >= w.at {
		return
	}
	w.at = at
	select {
	case w.c <- struct{}{}:
	default:
	}
}

// jitter is a random duration in (0, d].
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return rand.N(d) + 1
}
