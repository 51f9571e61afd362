package line

import (
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
)

// turnSlack is how much later than the end of a grant, or a turn, the server is
// asked to look.
const turnSlack = 5 * time.Millisecond

// Gave notes that a release of this store has granted a lease on, or kept a
// slot, for so long. The check of an earlier one is put off: it has been over
// for the lease to be released again.
func (l *Line) Gave(name contract.Name, turn time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	if timer := l.given[name]; timer != nil {
		timer.Reset(turn + turnSlack)
		return
	}
	l.given[name] = time.AfterFunc(turn+turnSlack, func() {
		l.mu.Lock()
		delete(l.given, name)
		closed := l.closed
		l.mu.Unlock()
		if !closed {
			l.Check(name)
		}
	})
}
