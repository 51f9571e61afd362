package grpcmw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/internal/full"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// domain is that of the ErrorInfo in a status of this package.
const domain = "lockbeat"

// The reasons in the ErrorInfo of a status: see doc.go and docs/grpc.md.
// LOCK_BUSY of a limit has its number as "limit", 0 if it is closed.
const (
	reasonBusy        = "LOCK_BUSY"
	reasonUnavailable = "LOCK_UNAVAILABLE"
	reasonLost        = "LOCK_LOST"
	reasonReplaced    = "REPLACED"
	reasonSilence     = "LOCK_SILENCE"
	reasonQuota       = "CALLER_QUOTA"
	reasonKey         = "LOCK_KEY_INVALID"
	reasonReused      = "IDEMPOTENCY_KEY_REUSED"
	reasonNotKept     = "IDEMPOTENCY_NOT_KEPT"
	reasonUnknown     = "IDEMPOTENCY_UNKNOWN"
)

const (
	// pushbackKey is the trailer by which a server tells a client's retry
	// policy when to come back.
	pushbackKey = "grpc-retry-pushback-ms"
	never       = -1 // of callError.retryIn
)

// callError is a call's error. What the remote caller gets of it is the status,
// which has no key in it, nor has the text; what it is made of is found by
// errors.Is and errors.As, in this process.
type callError struct {
	status  *status.Status
	causes  []error
	retryIn time.Duration // when retry policies are told to come back; 0: they are told nothing
}

func newError(
	code codes.Code, text string, causes []error, details ...protoadapt.MessageV1,
) *callError {
	plain := status.New(code, "lockbeat: "+text)
	detailed, err := plain.WithDetails(details...)
	if err != nil { // a detail that can't be encoded, which ours can
		detailed = plain
	}
	return &callError{status: detailed, causes: causes}
}

// Error is the status as text.
func (e *callError) Error() string { return e.status.Err().Error() }

// GRPCStatus is what gRPC sends to the caller.
func (e *callError) GRPCStatus() *status.Status { return e.status }

// Unwrap gives errors.Is and errors.As what the error is made of.
func (e *callError) Unwrap() []error { return e.causes }

// sent returns the error, and sets the trailer that says beside it when to come
// back, or not to: clients' retry policies read that. ctx is the call's. If its
// deadline leaves no time for another try, there must be none: a policy would
// wait for that until the deadline, and its caller would get a DeadlineExceeded
// in place of the status. Without a transport, as in a test, there is nowhere
// to set a trailer; the status says the same.
func (e *callError) sent(ctx context.Context) error {
	if e.retryIn == 0 {
		return e
	}
	ms := e.retryIn.Milliseconds()
	deadline, bounded := ctx.Deadline()
	if e.retryIn == never || bounded && time.Until(scope.AnswerBy(deadline)) <= e.retryIn {
		ms = -1 // don't
	}
	_ = grpc.SetTrailer(ctx, metadata.Pairs(pushbackKey, strconv.FormatInt(ms, 10)))
	return e
}

// with adds a cause.
func (e *callError) with(err error) *callError {
	added := *e
	added.causes = append(slices.Clip(added.causes), err)
	return &added
}

func info(reason string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: reason, Domain: domain}
}

// retryable is for a call that was refused with err and may come back.
func retryable(code codes.Code, text, reason string, err error) *callError {
	return comesBack(code, text, info(reason), err)
}

func comesBack(code codes.Code, text string, why *errdetails.ErrorInfo, err error) *callError {
	in := adapter.RetryIn(err, 0)
	if used, ok := errors.AsType[*repeat.QuotaError](err); ok {
		in = used.RetryIn
	}
	e := newError(code, fmt.Sprintf("%s; try again in %v", text, in.Round(time.Millisecond)),
		[]error{err}, why, &errdetails.RetryInfo{RetryDelay: durationpb.New(in)})
	e.retryIn = in
	return e
}

// refused translates the error of a lock that the call did not get.
func refused(err error) *callError {
	refusal := adapter.RefusalOf(err)
	if limit, ok := full.Of(err); ok {
		return atLimit(limit, refusal == adapter.RefusalQueueFull, err)
	}
	switch refusal {
	case adapter.RefusalBusy, adapter.RefusalSkipped: // the latter of a handler's own lock
		return busy("another call has the lock that this one needs", err)
	case adapter.RefusalQueueFull:
		return busy("too many calls wait for the lock that this one needs", err)
	case adapter.RefusalUnavailable:
		return retryable(codes.Unavailable, "the lock store can't be asked", reasonUnavailable, err)
	case adapter.RefusalShutdown:
		return retryable(codes.Unavailable, "no locks are given out here any more, since this "+
			"process is going down", reasonUnavailable, err)
	case adapter.RefusalName:
		return cmp.Or(said(err), badKey("the call does not say what to lock, or not in a usable "+
			"form", err))
	case adapter.RefusalLost, adapter.RefusalReplaced:
		return lostError(err, nil)
	case adapter.RefusalCancelled:
		return newError(codes.Canceled, "the call was cancelled while it waited for its lock",
			[]error{err})
	case adapter.RefusalDeadline:
		return newError(codes.DeadlineExceeded,
			"the call's deadline passed while it waited for its lock", []error{err})
	default:
		return cmp.Or(said(err), misused("the lock of this call can't be asked for").with(err))
	}
}

func busy(text string, err error) *callError {
	return retryable(codes.Aborted, text, reasonBusy, err)
}

// atLimit is for a call whose limit is full, or closed. The limit is in the
// ErrorInfo too.
func atLimit(limit int, queueFull bool, err error) *callError {
	text := fmt.Sprintf("as many calls as may, %d, run at once", limit)
	switch {
	case limit == 0:
		text = "no such calls are taken for now"
	case queueFull:
		text += ", and too many wait"
	}
	why := info(reasonBusy)
	why.Metadata = map[string]string{"limit": strconv.Itoa(limit)}
	return comesBack(codes.ResourceExhausted, text, why, err)
}

// notRepeated translates the error of a call that gets no reply from
// [Idempotent].
func notRepeated(err error) *callError {
	switch {
	case errors.Is(err, repeat.ErrQuota):
		return quotaFull("too many calls of this caller are being carried out, or too many of its "+
			"replies are stored", err)
	case errors.Is(err, repeat.ErrKey):
		return badKey("the call needs one "+idempotencyKey+" in its metadata, of 1 to 255 visible "+
			"ASCII characters", err)
	case errors.Is(err, once.ErrInput):
		return newError(codes.FailedPrecondition, "the "+idempotencyKey+" is that of another "+
			"call: another method or another request", []error{err}, info(reasonReused))
	case errors.Is(err, once.ErrResult):
		return newError(codes.AlreadyExists, "a call with this "+idempotencyKey+" has been "+
			"carried out, but its reply was too large to be kept, or could not be encoded",
			[]error{err}, info(reasonNotKept))
	case errors.Is(err, once.ErrRecord):
		return newError(codes.Internal, "what is stored for this "+idempotencyKey+" can't be "+
			"read; this call has not been carried out, one before it may have been", []error{err})
	case errors.Is(err, repeat.ErrLarge):
		return misused("the reply is too large to be kept, or can't be encoded, and the call was " +
			"rolled back").with(err)
	case errors.Is(err, once.ErrNotRecorded):
		return retryable(codes.Unavailable, "it is not known whether what the call did is on "+
			"record; sent again, with the same "+idempotencyKey+", it gets its reply, or is "+
			"carried out", reasonUnknown, err)
	case errors.Is(err, once.ErrConflict):
		return busy("the call was undone, since it was in conflict with another one", err)
	default:
		return refused(err)
	}
}

// quotaFull is for a call of a caller who has used up a bound of its own.
func quotaFull(text string, err error) *callError {
	return retryable(codes.ResourceExhausted, text, reasonQuota, err)
}

// lostError is for a call whose lock was lost, or that a newer one has
// replaced, while it waited for its lock too: sent again it would take the
// place of that. own is the call's own error, nil if it had none.
func lostError(loss, own error) *callError {
	causes := []error{loss}
	if own != nil {
		causes = []error{own, loss}
	}
	text, reason := "the lock that this call ran under was lost", reasonLost
	if errors.Is(loss, renewer.ErrReplaced) {
		text, reason = "a newer call has taken the place of this one", reasonReplaced
	}
	return halfDone(codes.Aborted, text, causes, reason)
}

// halfDone is for a call that may have done part of its work. A retry policy
// that lists the code for the sake of refusals must not do it again.
func halfDone(code codes.Code, text string, causes []error, reason string) *callError {
	e := newError(code, text, causes, info(reason))
	e.retryIn = never
	return e
}

// badKey is for a call without a usable key. err may be nil.
func badKey(text string, err error) *callError {
	if err == nil {
		err = fmt.Errorf("%w: %s", renewer.ErrName, text)
	}
	return newError(codes.InvalidArgument, text, []error{err}, info(reasonKey))
}

// misused is for a program that can't work as it is written.
func misused(text string) *callError {
	return newError(codes.Internal, text, []error{fmt.Errorf("%w: %s", renewer.ErrConfig, text)})
}

// anonymous is for a call that does not say who makes it, as it must where
// callers have bounds or keys of their own.
func anonymous() *callError { return badKey("the call does not say who makes it", nil) }
