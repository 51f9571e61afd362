package grpcmw

import (
	"cmp"
	"context"

	"google.golang.org/grpc"

	"github.com/lockbeat/lockbeat/renewer"
)

// UnaryServerInterceptor runs the handlers of unary methods under the locks that the rules
// among opts name; other methods pass through. See the package's text for the outcomes. It
// panics if k is nil, on two rules for one method, and on a rule for a streaming method.
//
// The handler's context ends when the call's does or when the lock is lost. The lock is held until
// the handler returns, panics or exits, also when the caller has gone meanwhile. An error of a lock
// that a handler returns, with a rule or without, is answered as [Respond] does.
func UnaryServerInterceptor(k *renewer.Keeper, opts ...Option) grpc.UnaryServerInterceptor {
	in := newInterceptor("UnaryServerInterceptor", k, opts, false)
	return func(ctx context.Context, req any, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler,
	) (any, error) {
		ctx, err := in.accept(ctx)
		if err != nil {
			return nil, err
		}
		r := in.rules[info.FullMethod]
		if r == nil {
			reply, err := handler(ctx, req)
			return reply, in.answer(ctx, trailerOf(ctx), err)
		}
		return in.serve(ctx, r, req, handler)
	}
}

// serve runs a handler under its call's lock.
func (in *interceptor) serve(
	ctx context.Context, r *rule, req any, handler grpc.UnaryHandler,
) (reply any, err error) {
	failed := in.run(ctx, r, req, func(ctx context.Context) error {
		reply, err = handler(ctx, req)
		return err
	})
	if failed = cmp.Or(failed, in.own(err)); failed != nil {
		trailerOf(ctx)(failed.trailer(ctx))
		err = failed
	}
	return reply, err
}
