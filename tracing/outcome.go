package tracing

import (
	"context"
	"errors"
	"net"

	"github.com/lockbeat/lockbeat/renewer"
)

// outcomes are how an acquire ends, and the error by which each is known. The
// order matters: a context that ended because an outer lock was lost is
// cancelled too.
var outcomes = []struct {
	name string
	err  error
}{
	{"granted", nil},
	{"outer_lost", renewer.ErrLost},
	{"cancelled", context.Canceled},
	{"deadline", context.DeadlineExceeded},
	{outcomeClosed, renewer.ErrLimitClosed},
	{"replaced", renewer.ErrReplaced},
	{outcomeExpected, renewer.ErrBusy}, // of a caller with RefusalExpected
	{"queue_full", renewer.ErrQueueFull},
	{"held", renewer.ErrBusy},
	{"unavailable", renewer.ErrUnavailable},
	{"shutdown", renewer.ErrShutdown},
	{"failed", nil}, // by what this version does not know
}

const (
	outcomeClosed   = "closed"
	outcomeExpected = "expected"
)

// refusals are the outcomes that lockbeat.refusals counts, of a deadline if
// others had the lock.
var refusals = []string{"held", "queue_full", "deadline", outcomeClosed}

// outcomeOf sorts what Acquire returned. It is an index.
func outcomeOf(e renewer.AcquireEnd) int {
	if e.Err == nil {
		return 0
	}
	for i, o := range outcomes {
		if o.err != nil && errors.Is(e.Err, o.err) &&
			(o.name != outcomeExpected || e.RefusalExpected) {
			return i
		}
	}
	return len(outcomes) - 1
}

// How a hold ends.
const (
	endReleased = "released"
	endLost     = "lost"
)

// errorType is a store's error in one word. Its text is no attribute:
// it has no bound, and may have the lock's name in it.
func errorType(err error) string {
	// The deadlines of contexts and files are net errors too.
	timeout, isNet := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, renewer.ErrRejected):
		return "rejected"
	case isNet && timeout.Timeout():
		return "timeout"
	case isNet:
		return "network"
	default:
		return "_OTHER"
	}
}
