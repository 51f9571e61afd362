package renewer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/lease"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// longWait is from when on a wait is logged at Info.
const longWait = time.Second

// logObserver is that of [NewLogObserver].
type logObserver struct {
	NopObserver
	log    *slog.Logger
	names  bool   // shown
	secret []byte // of the hash
	limit  logLimit
}

var _ Observer = (*logObserver)(nil)

// LogOption is for [NewLogObserver]. Nil is ignored.
type LogOption func(*logObserver)

// LogNames shows the names of locks, as lock, and errors with them.
func LogNames() LogOption { return func(o *logObserver) { o.names = true } }

// LogSecret has names hashed with a secret: see [HashName]. Give
// tracing.WithKeySecret the same. It panics if secret is empty.
func LogSecret(secret []byte) LogOption {
	if len(secret) == 0 {
		panic("lockbeat: renewer.LogSecret needs a secret: 32 random bytes, the same in every " +
			"process, or leave it out")
	}
	secret = slices.Clone(secret)
	return func(o *logObserver) { o.secret = secret }
}

// NewLogObserver returns an Observer that logs for the person on call to
// logger, slog.Default() if nil. It may serve several keepers; their
// [Config.Log] is not used.
//
//	Error  a job that failed, or could not be run
//	Warn   what an operator may have to act upon: docs/log.md has each line
//	Info   a wait of over a second; a call whose place a newer one has taken
//	Debug  every other acquire, heartbeat, release and run
//
// Of what comes in storms it writes one line a second and operation at these
// levels; left_out counts the others, which are at Debug. A line shows
// [HashName] of the name, as lock_hash, and [ErrorText] of errors, unless
// [LogNames] is given.
func NewLogObserver(logger *slog.Logger, opts ...LogOption) Observer {
	if logger == nil {
		logger = slog.Default()
	}
	o := &logObserver{log: logger}
	for _, opt := range opts {
		if opt != nil {
			opt(o)
		}
	}
	return o
}

// AcquireEnd logs a refusal that its caller does not expect at Warn, what else
// took more than a second at Info, and others at Debug.
func (o *logObserver) AcquireEnd(ctx context.Context, e AcquireEnd) context.Context {
	level, msg := endOf(e)
	level, leftOut := o.limited(ctx, level, msg, e.Operation)
	if !o.log.Enabled(ctx, level) {
		return ctx
	}
	attrs := []slog.Attr{
		o.lockAttr(e.Name), slog.String("operation", e.Operation), slog.Duration("wait", e.Wait),
		slog.Int("attempts", e.Attempts), slog.Bool("contended", e.Contended),
	}
	if e.HandedOver {
		attrs = append(attrs, slog.Bool("handed_over", true))
	}
	if e.Limit > 0 {
		attrs = append(attrs, slog.Int("limit", e.Limit))
	}
	if e.Held > 0 {
		attrs = append(attrs, slog.Int("limit_held", e.Held))
	}
	if e.Holder != (store.Holder{}) {
		attrs = append(attrs, slog.String("holder", e.Holder.String()),
			slog.Duration("held_for", e.HeldFor))
	}
	switch {
	case e.Err == nil:
		attrs = append(attrs, slog.Int64("fence", e.Fence))
	case !expected(e) || errors.Is(e.Err, ErrQueueFull): // else the line says everything
		attrs = append(attrs, o.errorAttr(e.Name, withoutHolder(e)))
	}
	o.log.LogAttrs(ctx, level, msg, withLeftOut(attrs, leftOut)...)
	return ctx
}

// withoutHolder is why an acquire failed, without the holder that the line has
// already: the line shows how old the lease is now, and the error how old it
// was when it was last seen.
func withoutHolder(e AcquireEnd) error {
	refusal, ok := e.Err.(*Error) //nolint:errorlint // one around it would say more
	if !ok || refusal.Holder != e.Holder {
		return e.Err
	}
	bare := *refusal
	bare.Holder, bare.HeldFor = store.Holder{}, 0
	return &bare
}

// expected reports whether a caller was refused who does not mind.
func expected(e AcquireEnd) bool {
	return e.RefusalExpected && errors.Is(e.Err, ErrBusy) &&
		!errors.Is(e.Err, context.DeadlineExceeded)
}

// endOf is at which level and how the end of an acquire is logged.
func endOf(e AcquireEnd) (slog.Level, string) {
	long := slog.LevelDebug
	if e.Wait > longWait && !e.StandBy {
		long = slog.LevelInfo
	}
	switch {
	case e.Err == nil && e.Wait > longWait && !e.StandBy:
		return slog.LevelInfo, "lock acquired after a wait"
	case e.Err == nil:
		return slog.LevelDebug, "lock acquired"
	case errors.Is(e.Err, ErrLost), errors.Is(e.Err, context.Canceled):
		return long, "caller left before it got the lock"
	case errors.Is(e.Err, ErrReplaced):
		return slog.LevelInfo, "a newer call has taken the place of one that waited"
	case errors.Is(e.Err, ErrShutdown):
		return long, "lock not acquired, as the keeper shuts down"
	case expected(e):
		return long, obstacle(e, "lock is held, as its caller expects",
			"limit is full, as its caller expects")
	case errors.Is(e.Err, ErrBusy), errors.Is(e.Err, context.DeadlineExceeded):
		return slog.LevelWarn, obstacle(e, "lock refused", "limit is full")
	default:
		return slog.LevelWarn, "lock not acquired"
	}
}

// obstacle is which of these says what the caller of a lock, or of a limit, was
// refused for.
func obstacle(e AcquireEnd, held, full string) string {
	switch {
	case errors.Is(e.Err, ErrLimitClosed):
		return "limit is closed"
	case e.Held > 0:
		return full
	default:
		return held
	}
}

// Renewed logs heartbeats at Debug, and those that failed at Warn.
func (o *logObserver) Renewed(ctx context.Context, e Renewed) {
	level, msg := slog.LevelDebug, "leases renewed"
	if e.Failed > 0 {
		level, msg = slog.LevelWarn, "leases not renewed yet"
	}
	level, leftOut := o.limited(ctx, level, msg, "")
	if !o.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.Int("leases", e.Leases), slog.Int("failed", e.Failed), slog.Int("gone", e.Gone),
		slog.Duration("lag", e.Lag), slog.Duration("took", e.Took),
	}
	if e.Err != nil {
		attrs = append(attrs, o.errorAttr("", e.Err))
	}
	o.log.LogAttrs(ctx, level, msg, withLeftOut(attrs, leftOut)...)
}

// Lost logs a loss at Warn, and at Info if a newer call has taken the
// operation's place.
func (o *logObserver) Lost(ctx context.Context, e Lost) {
	level, msg, leftOut := slog.LevelWarn, "lease lost", 0
	if e.Err.Reason == ReasonReplaced {
		msg = "a newer call has taken the place of one that ran"
		level, leftOut = o.limited(ctx, slog.LevelInfo, msg, e.Operation)
	}
	attrs := []slog.Attr{
		o.lockAttr(e.Name), slog.String("operation", e.Operation), slog.Int64("fence", e.Fence),
		slog.Duration("held", e.Held), slog.String("reason", e.Err.Reason.String()),
	}
	if e.Err.Found != "" {
		attrs = append(attrs, slog.String("found", e.Err.Found))
	}
	if e.Err.Holder != (store.Holder{}) {
		attrs = append(attrs, slog.String("holder", e.Err.Holder.String()))
	}
	o.log.LogAttrs(ctx, level, msg, withLeftOut(append(attrs,
		slog.Duration("left", e.Err.Left), o.errorAttr(e.Name, e.Err)), leftOut)...)
}

// Released logs a clean release at Debug, an overrun or a key that could not be
// freed at Warn.
func (o *logObserver) Released(ctx context.Context, e Released) {
	level, msg, leftOut := slog.LevelDebug, "lock released", 0
	switch {
	case e.Lost != nil && e.Overrun > max(e.Lost.Left, lease.StoppedAtOnce):
		level, msg = slog.LevelWarn, "operation ran on when others could have the lock"
	case e.Err != nil:
		msg = "lock not freed yet"
		level, leftOut = o.limited(ctx, slog.LevelWarn, msg, e.Operation)
	}
	if !o.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		o.lockAttr(e.Name), slog.String("operation", e.Operation), slog.Int64("fence", e.Fence),
		slog.Duration("held", e.Held), slog.Int("renewals", e.Renewals),
	}
	if e.HandedOver {
		attrs = append(attrs, slog.Bool("handed_over", true))
	}
	if e.Overrun > 0 {
		attrs = append(attrs, slog.Duration("overrun", e.Overrun))
	}
	if e.Err != nil {
		attrs = append(attrs, o.errorAttr(e.Name, e.Err))
	}
	o.log.LogAttrs(ctx, level, msg, withLeftOut(attrs, leftOut)...)
}

// StillRuns logs a lock that is held for long, and an operation that runs on
// without it, at Warn.
func (o *logObserver) StillRuns(ctx context.Context, e StillRuns) {
	msg := "lock is still held"
	if e.Lost != nil {
		msg = "operation runs on when others can have the lock"
	}
	level, leftOut := o.limited(ctx, slog.LevelWarn, msg, e.Operation)
	if !o.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		o.lockAttr(e.Name), slog.String("operation", e.Operation), slog.Int64("fence", e.Fence),
		slog.Duration("held", e.Held),
	}
	if e.Lost != nil {
		attrs = append(attrs, slog.String("reason", e.Lost.Reason.String()),
			slog.Duration("overrun", e.Overrun))
	} else {
		attrs = append(attrs, slog.Int("waiting", e.Waiting))
	}
	o.log.LogAttrs(ctx, level, msg, withLeftOut(attrs, leftOut)...)
}

// Unlocked logs an operation without its lock at Warn.
func (o *logObserver) Unlocked(ctx context.Context, e Unlocked) {
	const msg = "operation runs without its lock"
	level, leftOut := o.limited(ctx, slog.LevelWarn, msg, e.Operation)
	if !o.log.Enabled(ctx, level) {
		return
	}
	o.log.LogAttrs(ctx, level, msg, withLeftOut([]slog.Attr{
		o.lockAttr(e.Name), slog.String("operation", e.Operation),
		slog.Duration("outage", e.Outage), o.errorAttr(e.Name, e.Err),
	}, leftOut)...)
}

// Fault logs trouble in the background at Warn.
func (o *logObserver) Fault(e Fault) {
	ctx, level, msg, leftOut := context.Background(), slog.LevelWarn, "trouble with locks", 0
	switch {
	case errors.Is(e.Err, ErrConfig):
		msg = "locks are set up wrongly"
	case e.Name != "": // there may be one for each lock
		level, leftOut = o.limited(ctx, level, msg, e.Doing)
	}
	o.log.LogAttrs(ctx, level, msg, withLeftOut([]slog.Attr{
		slog.String("doing", e.Doing), o.lockAttr(e.Name), o.errorAttr(e.Name, e.Err),
	}, leftOut)...)
}

// limited is the level of a line that comes in storms, and how many like it
// were left out before.
func (o *logObserver) limited(
	ctx context.Context, level slog.Level, msg, operation string,
) (_ slog.Level, leftOut int) {
	if level == slog.LevelDebug || !o.log.Enabled(ctx, level) {
		return level, 0
	}
	ok, leftOut := o.limit.pass(logKind{msg, operation}, time.Now())
	if !ok {
		return slog.LevelDebug, 0
	}
	return level, leftOut
}

func withLeftOut(attrs []slog.Attr, leftOut int) []slog.Attr {
	if leftOut > 0 {
		attrs = append(attrs, slog.Int("left_out", leftOut))
	}
	return attrs
}

// lockAttr is which lock it is.
func (o *logObserver) lockAttr(name string) slog.Attr {
	switch {
	case name == "": // of a fault that is no lock's
		return slog.Attr{}
	case o.names:
		return slog.String("lock", name)
	default:
		return slog.String("lock_hash", HashName(name, o.secret))
	}
}

// leastHidden is the length from which on a name is looked for in the text of
// an error: a shorter one is in there by chance.
const leastHidden = 4

// errorAttr is an error about a lock, "" if it is not known which.
func (o *logObserver) errorAttr(name string, err error) slog.Attr {
	if o.names {
		return slog.Any("error", err)
	}
	text := ErrorText(err)
	if len(name) >= leastHidden { // in an error of a store that names locks all the same
		text = strings.ReplaceAll(text, name, "…")
	}
	return slog.String("error", text)
}

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

// logLimit lets through one line a second of each kind, and counts the others:
// a storm of refusals must not flood the log. Its method may be called
// concurrently.
type logLimit struct {
	mu    sync.Mutex
	kinds map[logKind]*logCount
}

// logCount is what is known of one kind.
type logCount struct {
	last    time.Time // when a line was let through
	leftOut int       // since then
}

// pass reports whether a line may be written now, and how many of its kind were
// left out since the last one.
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

// countOf is the count of a kind; beyond the most that there may be, one that
// others share. Under l.mu.
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
