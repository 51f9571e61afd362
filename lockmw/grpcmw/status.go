package grpcmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

// Domain is that of the ErrorInfo in a status of this package.
const Domain = "lockbeat"

// The reasons in the ErrorInfo of a status.
const (
	// ReasonBusy means that another caller has the lock, and the call did not run; or that its
	// transaction was in conflict with another one and was undone: see [RecordIn].
	ReasonBusy = "LOCK_BUSY"
	// ReasonUnavailable means that the store could not be asked, or
	// that the server is going down; the call did not run.
	ReasonUnavailable = "LOCK_UNAVAILABLE"
	// ReasonLost means that the lock was lost while the call ran.
	ReasonLost = "LOCK_LOST"
	// ReasonSilence means that the client of a stream has kept a lock and the server waiting for
	// too long: see [Silence].
	ReasonSilence = "LOCK_SILENCE"
	// ReasonQuota means that as many calls of the caller wait for locks as may: see
	// [MaxWaitersPerCaller]. The call did not run.
	ReasonQuota = "LOCK_QUOTA"
	// ReasonKey means that the call carries no usable key; it did not run.
	ReasonKey = "LOCK_KEY_INVALID"
	// ReasonReused means that the call's [IdempotencyKey] is that of another call; this one did not
	// run.
	ReasonReused = "IDEMPOTENCY_KEY_REUSED"
	// ReasonNotKept means that the call has been carried out before, and that its reply was too
	// large to be stored.
	ReasonNotKept = "IDEMPOTENCY_NOT_KEPT"
	// ReasonStored means that as many replies to the caller's calls are stored as may be: see
	// [MaxStored]. The call did not run.
	ReasonStored = "IDEMPOTENCY_QUOTA"
	// ReasonTooMany means that as many of the caller's calls are being carried out as may be: see
	// [MaxRunningPerCaller]. The call did not run.
	ReasonTooMany = "IDEMPOTENCY_TOO_MANY"
	// ReasonUnknown means that it is not known whether what the call did is on record: see
	// [RecordIn]. Sent again with the same [IdempotencyKey] it gets its reply,
	// or is carried out.
	ReasonUnknown = "IDEMPOTENCY_UNKNOWN"
)

const (
	// pushbackKey is the trailer by which a server tells a client's retry policy when to come back.
	pushbackKey = "grpc-retry-pushback-ms"
	// noRetry is its value for "don't".
	noRetry = "-1"

	never = -1 // of callError.retryIn
)

// callError is a call's error. What the remote caller gets of it is the status, which has no key in
// it, nor has the text; what it is made of is found by errors.Is and errors.As, in this process.
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

// trailer is what a server sends with the status, beside what says the same in its
// details: clients' retry policies read this. ctx is the call's. If its deadline leaves
// no time for another try, there must be none: a policy would wait for that until the
// deadline, and its caller would get a DeadlineExceeded in place of the status.
func (e *callError) trailer(ctx context.Context) metadata.MD {
	if e.retryIn == 0 {
		return nil
	}
	deadline, bounded := ctx.Deadline()
	if e.retryIn == never || bounded && time.Until(lockmw.AnswerBy(deadline)) <= e.retryIn {
		return metadata.Pairs(pushbackKey, noRetry)
	}
	return metadata.Pairs(pushbackKey, strconv.FormatInt(e.retryIn.Milliseconds(), 10))
}

// with adds a cause.
func (e *callError) with(err error) *callError {
	added := *e
	added.causes = append(slices.Clip(added.causes), err)
	return &added
}

func info(reason string) *errdetails.ErrorInfo {
	return &errdetails.ErrorInfo{Reason: reason, Domain: Domain}
}

// retryable adds to an error when to come back.
func retryable(code codes.Code, text, reason string, err error, in time.Duration) *callError {
	e := newError(code, fmt.Sprintf("%s; try again in %v", text, in.Round(time.Millisecond)),
		[]error{err},
		info(reason), &errdetails.RetryInfo{RetryDelay: durationpb.New(in)})
	e.retryIn = max(in, time.Millisecond)
	return e
}

// refused translates the error of a lock that the call did not get.
func (s *settings) refused(err error) *callError {
	switch lockmw.RefusalOf(err) {
	case lockmw.RefusalHeld, lockmw.RefusalSkipped: // the latter of a handler's own lock
		return s.busy("another call has the lock that this one needs", err)
	case lockmw.RefusalQueueFull:
		return s.busy("too many calls wait for the lock that this one needs", err)
	case lockmw.RefusalUnavailable:
		return retryable(codes.Unavailable, "the lock store can't be asked", ReasonUnavailable, err,
			s.again(err))
	case lockmw.RefusalShutdown:
		return retryable(codes.Unavailable,
			"no locks are given out here any more, since this process is going down",
			ReasonUnavailable, err, s.again(err))
	case lockmw.RefusalName:
		return badKey("the key that the call is to be locked on is empty or too long", err)
	case lockmw.RefusalLost:
		return lostError(err, nil)
	case lockmw.RefusalCancelled:
		return newError(codes.Canceled, "the call was cancelled while it waited for its lock",
			[]error{err})
	case lockmw.RefusalDeadline:
		return newError(codes.DeadlineExceeded,
			"the call's deadline passed while it waited for its lock", []error{err})
	default:
		return misused("the lock of this call can't be asked for").with(err)
	}
}

func (s *settings) busy(text string, err error) *callError {
	return retryable(codes.Aborted, text, ReasonBusy, err, s.again(err))
}

func (s *settings) again(err error) time.Duration { return lockmw.RetryIn(err, s.retryIn) }

// notRepeated translates the error of a call that gets no reply from [Idempotent].
func (s *settings) notRepeated(err error) *callError {
	full, isFull := errors.AsType[*repeat.QuotaError](err)
	switch {
	case isFull:
		return retryable(codes.ResourceExhausted, "too many replies to this caller are stored",
			ReasonStored, err, full.RetryIn)
	case errors.Is(err, repeat.ErrTooMany):
		return retryable(codes.ResourceExhausted,
			"too many calls of this caller are being carried out", ReasonTooMany, err, s.again(err))
	case errors.Is(err, repeat.ErrKey):
		return badKey("the call needs one "+IdempotencyKey+" in its metadata, of 1 to 255 visible "+
			"ASCII characters", err)
	case errors.Is(err, once.ErrInput):
		return newError(codes.FailedPrecondition,
			"the "+IdempotencyKey+" is that of another call: "+
				"another method or another request", []error{err}, info(ReasonReused))
	case errors.Is(err, once.ErrResult):
		return newError(codes.AlreadyExists,
			"a call with this "+IdempotencyKey+" has been carried "+
				"out, but its reply was too "+
				"large to be kept, or could not be encoded", []error{err}, info(ReasonNotKept))
	case errors.Is(err, once.ErrRecord):
		return newError(codes.Internal,
			"what is stored for this "+IdempotencyKey+" can't be read; "+
				"this call has not been carried out, one before it may have been", []error{err})
	case errors.Is(err, repeat.ErrLarge):
		return misused("the reply is too large to be kept, or can't be encoded, and the call was " +
			"rolled back").with(err)
	case errors.Is(err, once.ErrNotRecorded):
		return retryable(codes.Unavailable,
			"it is not known whether what the call did is on record; sent again, with the same "+
				IdempotencyKey+", it gets its reply, or is carried out", ReasonUnknown, err,
			s.again(err))
	case errors.Is(err, once.ErrConflict):
		return retryable(codes.Aborted, "the call was undone, since it was in conflict with "+
			"another one", ReasonBusy, err, s.again(err))
	default:
		return s.refused(err)
	}
}

// quotaFull is for a call of a caller who has enough of them waiting.
func (s *settings) quotaFull() *callError {
	err := errors.New("lockbeat: as many calls of the caller wait for locks as " +
		"MaxWaitersPerCaller allows")
	return retryable(codes.ResourceExhausted, "too many calls of this caller wait for locks",
		ReasonQuota, err, s.again(err))
}

// lostError is for a call whose lock was lost. own is the call's own error, nil if it had none.
func lostError(loss, own error) *callError {
	causes := []error{loss}
	if own != nil {
		causes = []error{own, loss}
	}
	e := newError(codes.Aborted, "the lock that this call ran under was lost", causes,
		info(ReasonLost))
	// The call may have done part of its work. A retry policy that
	// lists the code for the sake of refusals must not do it again.
	e.retryIn = never
	return e
}

// silentError is for a stream whose client has been silent for too long.
func silentError() *callError {
	e := newError(codes.DeadlineExceeded,
		"the stream's client has been silent for longer than a lock is held for it", []error{
			ErrSilence,
		}, info(ReasonSilence))
	e.retryIn = never // as above
	return e
}

// badKey is for a call without a usable key. err may be nil.
func badKey(text string, err error) *callError {
	if err == nil {
		err = fmt.Errorf("%w: %s", renewer.ErrName, text)
	}
	return newError(codes.InvalidArgument, text, []error{err}, info(ReasonKey))
}

// misused is for a program that can't work as it is written.
func misused(text string) *callError {
	return newError(codes.Internal, text, []error{fmt.Errorf("%w: %s", renewer.ErrConfig, text)})
}

// ended is for a stream used after its end.
func ended(text string) *callError {
	return newError(codes.Canceled, text, []error{context.Canceled})
}
