package tracing

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
