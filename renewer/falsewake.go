package renewer

import (
	"context"
	"time"
)

// The pause after the second wake-up upon which the same holder still had the name, and after the
// next ones in a row, each twice as long as the last.
const (
	firstFalsePause = time.Millisecond
	lastFalsePause  = 250 * time.Millisecond
)

// falseWakes bounds the questions that wake-ups cause. A user of the server who may only publish
// can send wake-ups, and each led to a question to the store: 11,000 a second. A wake-up within
// the pause after a false one is answered at the end of the pause, together with all others until
// then. Only the head of a line touches it.
type falseWakes struct {
	any   bool // there was one since the name was last free
	pause time.Duration
	until instant // of the pause; 0 without one
}

// add notes a false one. The first costs nothing, as each watch begins with a wake-up.
func (f *falseWakes) add(now instant) {
	if !f.any {
		f.any = true
		return
	}
	f.pause = min(max(2*f.pause, firstFalsePause), lastFalsePause)
	f.until = now.Add(f.pause)
}

// judge notes whether the wake-up that led to a question was false, or that the pause is over: the
// caller has the name, or it has changed hands since.
func (c *call) judge(woken, had bool) {
	switch ln := c.watched(); {
	case ln == nil:
	case had || c.freed:
		ln.falseWakes = falseWakes{}
	case woken:
		ln.falseWakes.add(c.k.clock.AtMost())
	}
}

// await returns when the caller is to ask again, after pause at the latest, and whether a wake-up
// is why.
func (c *call) await(ctx context.Context, pause time.Duration) (woken bool, err error) {
	ln := c.watched()
	var wake <-chan struct{}
	if ln != nil {
		wake = ln.wake
	}
	end := c.k.clock.AtMost().Add(pause)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			if woken { // the question answers those that came in the pause, too
				drain(ln.wake)
			}
			return woken, nil
		case <-wake:
			now := c.k.clock.AtMost()
			if now >= ln.falseWakes.until {
				return true, nil
			}
			wake = nil
			if ln.falseWakes.until < end {
				woken = true
				timer.Reset(ln.falseWakes.until.Sub(now))
			}
		case <-ctx.Done():
			return false, c.cancelled(ctx)
		case <-c.k.shutdown.closed:
			return false, c.fail(ErrShutdown, nil)
		}
	}
}

func drain(wake <-chan struct{}) {
	select {
	case <-wake:
	default:
	}
}
