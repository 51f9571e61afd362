package redisstore

import (
	"sync"
	"time"
)

// turns are those that releases of this store have given to others and that may not be over. A
// process that was given one may be stuck, so that it never claims the lease: when the turn is
// over, check has the server look, and pass the lease on. It may be used concurrently.
type turns struct {
	check func(name string) // asks the server

	mu     sync.Mutex
	ends   map[string]*time.Timer // by lock
	closed bool
}

// turnSlack is how much later than the end of a turn the server is asked to look.
const turnSlack = 5 * time.Millisecond

// note notes that a release has made a lease a turn of so long. The check of an earlier turn is
// put off: it has been over for the lease to be released again.
func (t *turns) note(name string, turn time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	if timer := t.ends[name]; timer != nil {
		timer.Reset(turn + turnSlack)
		return
	}
	if t.ends == nil {
		t.ends = make(map[string]*time.Timer)
	}
	t.ends[name] = time.AfterFunc(turn+turnSlack, func() { t.end(name) })
}

func (t *turns) end(name string) {
	t.mu.Lock()
	delete(t.ends, name)
	closed := t.closed
	t.mu.Unlock()
	if !closed {
		t.check(name)
	}
}

// close ends the checks.
func (t *turns) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, timer := range t.ends {
		timer.Stop()
	}
}
