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

// The names of all that this package emits. TELEMETRY.md is the table of them
// for users. A test compares it with this file and with what is emitted. To
// change a name breaks users' dashboards.
const (
	// scopeName is the instrumentation scope of all spans and metrics.
	scopeName = "github.com/lockbeat/lockbeat/tracing"
	// version is the instrumentation scope's version: that of the module.
	version = "0.1.0"
)

// Spans.
const (
	spanAcquire = "lockbeat.acquire"
	spanAttempt = "lockbeat.attempt"
	spanHold    = "lockbeat.hold"
	spanRenew   = "lockbeat.renew"
)

// Events on spans.
const (
	eventLost          = "lockbeat.lost"
	eventRenewFailed   = "lockbeat.renew.failed"
	eventRenewLate     = "lockbeat.renew.late"
	eventReleaseFailed = "lockbeat.release.failed"
)

// Attributes. Durations are in seconds.
const (
	keyOperation       = "lockbeat.operation"
	keyOutcome         = "lockbeat.outcome"
	keyReason          = "lockbeat.reason"
	keyFound           = "lockbeat.found"
	keyName            = "lockbeat.key"
	keyNameHash        = "lockbeat.key_hash"
	keyAttempts        = "lockbeat.attempts"
	keyContended       = "lockbeat.contended"
	keyHandedOver      = "lockbeat.handed_over"
	keyWait            = "lockbeat.wait"
	keyHolderHost      = "lockbeat.holder.host"
	keyHolderPID       = "lockbeat.holder.pid"
	keyHolderOperation = "lockbeat.holder.operation"
	keyHolderHeldFor   = "lockbeat.holder.held_for"
	keyLimit           = "lockbeat.limit"
	keyLimitHeld       = "lockbeat.limit_held"
	keyLimited         = "lockbeat.limited" // in metrics
	keyFence           = "lockbeat.fence"
	keyRenewals        = "lockbeat.renewals"
	keyOverrun         = "lockbeat.overrun"
	keyLag             = "lockbeat.lag"
	keyLeft            = "lockbeat.left"
	keyLeases          = "lockbeat.leases"
	keyLeasesGone      = "lockbeat.leases_gone"
	keyLeasesFailed    = "lockbeat.leases_failed"
	keyErrorType       = "error.type"
	keyErrorMessage    = "error.message"
)

// Metrics.
const (
	metricAcquireDuration = "lockbeat.acquire.duration"
	metricHoldDuration    = "lockbeat.hold.duration"
	metricOverrunDuration = "lockbeat.overrun.duration"
	metricRenewLag        = "lockbeat.renew.lag"
	metricHeld            = "lockbeat.held"
	metricHoldOldest      = "lockbeat.hold.oldest"
	metricOverrunning     = "lockbeat.overrunning"
	metricWaiting         = "lockbeat.waiting"
	metricWaitOldest      = "lockbeat.wait.oldest"
	metricTasksInLine     = "lockbeat.tasks_in_line"
	metricRefusals        = "lockbeat.refusals"
	metricStoreOutage     = "lockbeat.store.outage"
	metricAtLimit         = "lockbeat.at_limit"
	metricRenewals        = "lockbeat.renewals"
	metricLosses          = "lockbeat.losses"
	metricUnlocked        = "lockbeat.unlocked"
	metricRuns            = "lockbeat.runs"
	metricRunDuration     = "lockbeat.run.duration"
	metricRunLastSuccess  = "lockbeat.run.last_success.timestamp"
	metricRunDueBy        = "lockbeat.run.due_by.timestamp"
)

// otherOperation stands for the operations beyond the first
// mostOperations, as _OTHER does in OpenTelemetry's own conventions.
const otherOperation = "_OTHER"
