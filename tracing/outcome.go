package tracing

import (
	"context"
	"errors"
	"net"

	"github.com/lockbeat/lockbeat/renewer"
)

// outcome is how an acquire ended.
type outcome uint8

const (
	granted outcome = iota
	held
	queueFull
	unavailable
	shutdown
	cancelled
	deadline
	outerLost
	failed
	outcomes // how many there are
)

// String is the outcome as attributes show it.
func (o outcome) String() string {
	return [outcomes]string{
		"granted", "held", "queue_full", "unavailable", "shutdown", "cancelled",
		"deadline", "outer_lost", "failed",
	}[o]
}

// outcomeOf sorts what Acquire returned. The order matters: a context
// that ended because an outer lock was lost is cancelled too.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return granted
	case errors.Is(err, renewer.ErrLost):
		return outerLost
	case errors.Is(err, context.Canceled):
		return cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return deadline
	case errors.Is(err, renewer.ErrQueueFull):
		return queueFull
	case errors.Is(err, renewer.ErrHeld):
		return held
	case errors.Is(err, renewer.ErrUnavailable):
		return unavailable
	case errors.Is(err, renewer.ErrShutdown):
		return shutdown
	default:
		return failed
	}
}

// ending is how a hold ended.
type ending uint8

const (
	released ending = iota
	lost
	endings // how many there are
)

// String is the ending as attributes show it.
func (e ending) String() string { return [endings]string{"released", "lost"}[e] }

// endingOf is how a released lease ended.
func endingOf(loss *renewer.LostError) ending {
	if loss != nil {
		return lost
	}
	return released
}

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
