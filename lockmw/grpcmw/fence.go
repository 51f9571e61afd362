package grpcmw

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
)

// fenceKey is the metadata in which a fencing token goes along with a call: a
// decimal number from 1 to 2^53-1, so that it stays what it is in JavaScript,
// Lua and JSON.
const fenceKey = "lockbeat-fence"

// InjectFence adds the fencing token of ctx, lockmw.Fence, to the metadata that
// calls made with the returned context send; if there is none, it removes one
// that is there.
func InjectFence(ctx context.Context) context.Context {
	fence := lockmw.Fence(ctx)
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if fence == 0 && len(md[fenceKey]) == 0 {
		return ctx
	}
	md = metadata.Join(md) // not nil
	md.Delete(fenceKey)
	if fence > 0 {
		md.Set(fenceKey, wire.FormatFence(fence))
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// AcceptFence makes the token that comes with a call, by [InjectFence], its
// lockmw.Fence, unless it runs under a lock here; also of methods without a
// rule. One that is no token is codes.InvalidArgument. Use it only where all
// callers are trusted: a resource that has seen a token too high refuses all
// others. Default: no token is believed.
func AcceptFence() Option { return own(func(s *settings) { s.accept = true }) }

// StripFence removes the token from the metadata of every call, for the edge of
// a system. Give it to both interceptors.
func StripFence() Option { return own(func(s *settings) { s.strip = true }) }

// receiveFence does with the token that came with a call what AcceptFence or
// StripFence asks for.
func (s *settings) receiveFence(ctx context.Context) (context.Context, error) {
	values := metadata.ValueFromIncomingContext(ctx, fenceKey)
	switch {
	case len(values) == 0:
		return ctx, nil
	case s.strip:
		md, _ := metadata.FromIncomingContext(ctx) // a copy
		md.Delete(fenceKey)
		return metadata.NewIncomingContext(ctx, md), nil
	case s.accept:
		fence, ok := wire.ParseFence(values[0])
		if !ok || len(values) > 1 {
			return ctx, newError(codes.InvalidArgument, "the fencing token in metadata \""+fenceKey+
				"\" is not one decimal number from 1 to 2^53-1", nil)
		}
		return scope.WithFence(ctx, fence), nil
	default:
		return ctx, nil
	}
}
