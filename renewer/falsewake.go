package renewer

import (
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
// then. Only the head of a queue touches it.
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
