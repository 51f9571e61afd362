package renewer

import (
	"sync"
	"time"
)

const (
	// logEvery is the least time between two lines of one kind.
	logEvery = time.Second
	// mostLogKinds bounds how many kinds are counted each on its own.
	mostLogKinds = 256
	// otherOperations stands for the operations beyond that.
	otherOperations = "_OTHER"
)

// logKind is what lines are counted by: a message, about an operation.
type logKind struct{ msg, operation string }

// logLimit lets through one line a second of each kind, and counts the others: a storm of refusals
// must not flood the log. Its method may be called concurrently.
type logLimit struct {
	mu    sync.Mutex
	kinds map[logKind]*logCount
}

// logCount is what is known of one kind.
type logCount struct {
	last    time.Time // when a line was let through
	leftOut int       // since then
}

// pass reports whether a line may be written now, and how many of its kind were left out since the
// last one.
func (l *logLimit) pass(kind logKind, now time.Time) (ok bool, leftOut int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.countOf(kind)
	if !c.last.IsZero() && now.Sub(c.last) < logEvery {
		c.leftOut++
		return false, 0
	}
	leftOut = c.leftOut
	c.last, c.leftOut = now, 0
	return true, leftOut
}

// countOf is the count of a kind; beyond the most that there may be, one that others share. Under
// l.mu.
func (l *logLimit) countOf(kind logKind) *logCount {
	if c := l.kinds[kind]; c != nil {
		return c
	}
	if len(l.kinds) >= mostLogKinds {
		kind.operation = otherOperations
		if c := l.kinds[kind]; c != nil {
			return c
		}
	}
	if l.kinds == nil {
		l.kinds = make(map[logKind]*logCount)
	}
	c := new(logCount)
	l.kinds[kind] = c
	return c
}
