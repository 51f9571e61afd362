package renewer

// waker tells a loop that sleeps until some instant that something earlier has come up. It is told
// seldom: the loop looks around only when its instant has come, even if what it was to come for is
// gone, so leases that come and go within an interval wake nobody. at is guarded by Keeper.mu.
type waker struct {
	c  chan struct{}
	at instant // when the loop looks around next; 0 at first, which is at once
}

func newWaker() waker { return waker{c: make(chan struct{}, 1)} }

// due tells whether the loop is to look around, rather than to sleep shorter. Under Keeper.mu.
func (w *waker) due(now instant) bool { return now >= w.at }

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
