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
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// IdempotencyKey is the metadata that names a call, so that it can be sent again: 1 to 255
	// visible ASCII characters, with or without the quotes of a structured field's string.
	IdempotencyKey = "idempotency-key"
	// ReplayedKey is "true" in the header metadata of a stored reply that is sent again.
	ReplayedKey = "idempotent-replayed"
)

// Idempotent has calls of unary methods carried out once, however often their clients send them.
// Calls of one caller with the same [IdempotencyKey] get the reply of the first, on any server, for
// as long as [KeepAnswer] says. See the package's text for the outcomes. Methods that are not in
// the list pass through. Where methods need other options, chain several interceptors.
//
// The keeper's store must be a renewer.Recorder, as redisstore is, unless [RecordIn] is
// given. caller says who makes a call: an account that an interceptor further out has
// checked. It must tell tenants apart too. It is hashed before it leaves the process,
// and called concurrently. A call for which it is empty is codes.InvalidArgument. A
// call is the same if its method and its request are, in protobuf's deterministic form;
// the same key with another is codes.FailedPrecondition.
//
// The handler goes on when its client has gone, for a minute ([FinishWithin]). Its context has the
// call's values, and not the call's deadline.
//
// It panics if k or caller is nil, if no method is given, on a method that does not exist, is a
// streaming one or has no generated protobuf code, and on options that can't be meant.
func Idempotent(
	k *renewer.Keeper, caller func(ctx context.Context) string, methods []string,
	opts ...IdempotentOption,
) grpc.UnaryServerInterceptor {
	if k == nil || caller == nil || len(methods) == 0 {
		panic("lockbeat: grpcmw.Idempotent needs a keeper (renewer.New), a function that says " +
			"who calls, and the methods that are to be carried out once")
	}
	set := newIdempotentSettings()
	for _, o := range opts {
		o.idempotent(&set)
	}
	repeats, err := repeat.New(k, set.Settings)
	if err != nil {
		panic(err.Error())
	}
	in := &idempotent{
		idempotentSettings: set, keeper: k, caller: caller, repeats: repeats, locks: newSettings(),
		replies: make(map[string]protoreflect.MessageType, len(methods)),
	}
	for _, m := range methods {
		in.replies[m] = replyOf(m)
	}
	return in.serve
}

// replyOf returns the type of a method's replies, by which stored ones are read. It panics if there
// can be none.
func replyOf(method string) protoreflect.MessageType {
	described := describe("grpcmw.Idempotent", method)
	switch {
	case described == nil:
	case isStream(described):
		panic(fmt.Sprintf("lockbeat: grpcmw.Idempotent is given %s, whose calls never come here: "+
			"it is a streaming method", method))
	default:
		reply, err := protoregistry.GlobalTypes.FindMessageByName(described.Output().FullName())
		if err == nil {
			return reply
		}
	}
	panic(fmt.Sprintf("lockbeat: grpcmw.Idempotent needs the generated protobuf code of %s, to "+
		"read stored replies", method))
}

// idempotent is what all calls at one [Idempotent] share.
type idempotent struct {
	idempotentSettings

	keeper  *renewer.Keeper
	caller  func(context.Context) string
	repeats *repeat.Guard
	locks   settings                            // how errors of locks are answered
	replies map[string]protoreflect.MessageType // by method

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
	key, err := repeat.Key(metadata.ValueFromIncomingContext(ctx, IdempotencyKey))
	if errors.Is(err, repeat.ErrNoKey) && in.keyOptional {
		return handler(ctx, req)
	}
	if err != nil {
		return nil, in.refuse(ctx, err)
	}
	caller := in.caller(ctx)
	if caller == "" {
		return nil, badKey("the call does not say who makes it, as it must where it can be sent "+
			"again", nil)
	}
	input, err := encodeRequest(req)
	if err != nil {
		return nil, misused(fmt.Sprintf("a request of %s can't be compared with one that is sent "+
			"again", info.FullMethod)).with(err)
	}
	e := &exchange{
		idempotent: in, handle: func(ctx context.Context) (any, error) { return handler(ctx, req) },
	}
	which := in.repeats.Request(caller, key, info.FullMethod, input)
	outcome, err := in.repeats.Do(ctx, which, repeat.Work{
		Operation: info.FullMethod,
		Run:       e.run,
		Read: func(stored []byte) (err error) {
			e.kept, err = decodeReply(stored, kind)
			return err
		},
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

	reply any // the handler's
	err   error
	loss  error // by which the handler's context had ended
	kept  reply // the stored one
}

// run runs the handler, and returns its reply for the store.
func (e *exchange) run(ctx context.Context) repeat.Answer {
	e.reply, e.err = e.handle(ctx)
	e.loss = lossIn(ctx)
	if !e.final(ctx) {
		return repeat.Answer{}
	}
	return repeat.Answer{Final: true, Data: encodeReply(e.reply, e.err, e.MaxAnswer)}
}

// finish returns what the call returns.
func (e *exchange) finish(
	ctx context.Context, outcome repeat.Outcome, err error,
) (any, error) {
	switch outcome {
	case repeat.OutcomeStored:
		_ = grpc.SetHeader(ctx, metadata.Pairs(ReplayedKey, "true")) // fails without a transport
		return e.kept.message, e.kept.err
	case repeat.OutcomeOwn:
		failed := settled(nil, e.loss, e.err, false)
		if failed = cmp.Or(failed, e.locks.own(e.err)); failed != nil {
			trailerOf(ctx)(failed.trailer(ctx))
			return e.reply, failed
		}
		return e.reply, e.err
	default:
		return nil, e.refuse(ctx, err)
	}
}

// refuse answers a call that was refused with err. It tells the keeper's observer of a stored reply
// that can't be read (a key of Seal may be missing, or another program may have written it), and of
// one that was rolled back since it can't be stored.
func (in *idempotent) refuse(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, once.ErrRecord):
		in.tell(&in.unreadable, err)
	case errors.Is(err, repeat.ErrLarge):
		in.tell(&in.large, err)
	}
	e := in.locks.notRepeated(err)
	trailerOf(ctx)(e.trailer(ctx))
	return e
}

// tell tells the keeper's observer of an error that is not one call's alone, the first time.
func (in *idempotent) tell(first *sync.Once, err error) {
	if o := in.keeper.Config().Observer; o != nil {
		first.Do(func() { o.Fault(renewer.Fault{Doing: "serve gRPC", Err: err}) })
	}
}
