package grpcmw

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockbeat/lockbeat/lockmw/internal/misuse"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// idempotencyKey is the metadata that names a call, so that it can be sent
	// again: 1 to 255 visible ASCII characters, with or without the quotes of a
	// structured field's string.
	idempotencyKey = "idempotency-key"
	// replayedKey is "true" in the header metadata of a stored reply that is
	// sent again.
	replayedKey = "idempotent-replayed"
)

// Idempotent has calls of unary methods carried out once, however often their
// clients send them: calls of one caller with the same idempotency-key, in the
// metadata, get the reply of the first, on any server, with idempotent-replayed
// in the header. The same key with another method or request is
// codes.FailedPrecondition. An error is not stored: the next call runs the
// handler. docs/grpc.md has the table of outcomes.
//
// The keeper's store must be a store.Recorder, as redisstore is, unless the
// config has a Recorder. The handler's context has the call's values, and not
// its deadline. Put authorization further out: a stored reply skips the
// handler. It panics if k is nil, and on a config that is invalid.
func Idempotent(k *renewer.Keeper, c IdempotentConfig) grpc.UnaryServerInterceptor {
	set, err := c.settings(k)
	if err != nil {
		panic(err.Error())
	}
	repeats, err := repeat.New(k, set)
	if err != nil {
		panic(err.Error())
	}
	in := &idempotent{
		IdempotentConfig: c, keeper: k, repeats: repeats, maxAnswer: set.MaxAnswer,
		replies: make(map[string]protoreflect.MessageType, len(c.Methods)),
		reports: newReports(k),
	}
	for _, name := range c.Methods {
		m := describe("Idempotent", name)
		if m.stream {
			panic(fmt.Sprintf("lockbeat: grpcmw.Idempotent is given %s, whose calls never come "+
				"here: it is a streaming method", name))
		}
		in.replies[name] = m.reply
	}
	if in.locks, err = in.lockRules(); err != nil {
		panic(err.Error())
	}
	return in.serve
}

// idempotent is what all calls at one [Idempotent] share.
type idempotent struct {
	IdempotentConfig

	keeper    *renewer.Keeper
	repeats   *repeat.Guard
	maxAnswer int
	replies   map[string]protoreflect.MessageType // by method
	locks     map[string]lockedMethod             // likewise

	reports           misuse.Reports
	unreadable, large sync.Once
}

// serve is the interceptor.
func (in *idempotent) serve(
	ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler,
) (any, error) {
	kind := in.replies[info.FullMethod]
	if kind == nil {
		return handler(ctx, req)
	}
	key, err := repeat.Key(metadata.ValueFromIncomingContext(ctx, idempotencyKey))
	if errors.Is(err, repeat.ErrNoKey) && in.KeyOptional {
		return handler(ctx, req)
	}
	if err != nil {
		return nil, notRepeated(err)
	}
	caller := in.Caller(ctx)
	if caller == "" {
		failed := anonymous()
		report(&in.reports, info.FullMethod, errors.Join(failed.causes...))
		return nil, failed
	}
	input, err := encodeRequest(req)
	if err != nil {
		report(&in.reports, info.FullMethod, err)
		return nil, misused(fmt.Sprintf("a request of %s can't be compared with one that is sent "+
			"again", info.FullMethod)).with(err)
	}
	e := &exchange{idempotent: in, handle: func(ctx context.Context) (any, error) {
		return handler(ctx, req)
	}, method: info.FullMethod, stored: kind.New().Interface()}
	which := in.repeats.Request(caller, key, info.FullMethod, input)
	outcome, err := in.repeats.Do(ctx, which, repeat.Work{
		Operation: info.FullMethod,
		Under:     in.under(ctx, info.FullMethod, req),
		Run:       e.run,
		Read:      func(stored []byte) error { return proto.Unmarshal(stored, e.stored) },
	})
	return e.finish(ctx, outcome, err)
}

// encodeRequest returns what tells requests of one method apart.
func encodeRequest(req any) (string, error) {
	m, ok := req.(proto.Message)
	if !ok {
		return "", fmt.Errorf("%w: a %T is no protobuf message", renewer.ErrConfig, req)
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return string(data), err
}

// exchange is one call and its reply, which is the handler's or the stored one.
type exchange struct {
	*idempotent

	handle func(context.Context) (any, error)
	method string
	reply  any   // the handler's
	err    error // the handler's
	loss   error // by which the handler's context had ended
	stored proto.Message
}

// run runs the handler, and returns its reply for the store. An error is none:
// the next call with the key runs the handler again.
func (e *exchange) run(ctx context.Context) repeat.Answer {
	e.reply, e.err = e.handle(ctx)
	e.loss = lossIn(ctx)
	if e.err != nil {
		return repeat.Answer{}
	}
	return repeat.Answer{Final: true, Data: encodeReply(e.reply, e.maxAnswer)}
}

// encodeReply returns what is to be stored, nil if that has more than most
// bytes, or can't be encoded.
func encodeReply(reply any, most int) []byte {
	m, ok := reply.(proto.Message)
	if !ok || proto.Size(m) > most {
		return nil
	}
	data, err := proto.MarshalOptions{}.MarshalAppend([]byte{}, m) // not nil, even if empty
	if err != nil {
		return nil
	}
	return data
}

// finish returns what the call returns. The keeper's observer is told of a
// stored reply that can't be read (a seal's key may be missing, or another
// program may have written it), and of one that was rolled back since it can't
// be stored.
func (e *exchange) finish(
	ctx context.Context, outcome repeat.Outcome, err error,
) (any, error) {
	var failed *callError
	switch outcome {
	case repeat.OutcomeStored:
		_ = grpc.SetHeader(ctx, metadata.Pairs(replayedKey, "true")) // fails without a transport
		return e.stored, nil
	case repeat.OutcomeOwn:
		failed = cmp.Or(settled(nil, e.loss, e.err, false), translated(e.err))
	default:
		report(&e.reports, e.method, err)
		failed = notRepeated(err)
	}
	switch {
	case failed == nil:
		return e.reply, e.err
	case errors.Is(err, once.ErrRecord):
		e.reports.First(&e.unreadable, err)
	case errors.Is(err, repeat.ErrLarge):
		e.reports.First(&e.large, err)
	}
	return nil, failed.sent(ctx)
}
