package grpcmw

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
)

// FenceKey is the metadata in which a fencing token goes along with a call: a decimal number from 1
// to 2^53-1, so that it stays what it is in JavaScript, Lua and JSON.
const FenceKey = "lockbeat-fence"

// InjectFence adds the token of the innermost lock that ctx runs under, lockmw.Fence, to the
// metadata that calls made with the returned context send, in place of one that is there. Without
// a lock it removes that, so that a token which came with a call is not passed on with another. A
// lock that was lost still gives its token, which resources refuse once they have seen a later
// one.
func InjectFence(ctx context.Context) context.Context {
	fence := lockmw.Fence(ctx)
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	_, there := md[FenceKey]
	switch {
	case fence > 0 && md == nil:
		md = metadata.Pairs(FenceKey, wire.FormatFence(fence))
	case fence > 0:
		md.Set(FenceKey, wire.FormatFence(fence))
	case there:
		md.Delete(FenceKey)
	default:
		return ctx
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// ExtractFence returns a context in which lockmw.Fence is the token that came with the call, or
// ctx if none did, or if ctx runs under a lock of this process already: that one's token stays.
// The loss of the caller's lock is not heard of here: the token stays what it is, and the
// resource that it is given to decides. A token that is repeated or no decimal number from 1 to
// 2^53-1 is an error with codes.InvalidArgument; the context is ctx then too. Take tokens only
// from callers that you trust: a resource that has seen one too high refuses everybody else.
// [AcceptFence] does it for every call.
func ExtractFence(ctx context.Context) (context.Context, error) {
	values := metadata.ValueFromIncomingContext(ctx, FenceKey)
	switch len(values) {
	case 0:
		return ctx, nil
	case 1:
		if fence, ok := wire.ParseFence(values[0]); ok {
			return lockmw.WithFence(ctx, fence), nil
		}
		return ctx, badFence("is no decimal number from 1 to 2^53-1")
	default:
		return ctx, badFence(fmt.Sprintf("is given %d times", len(values)))
	}
}

func badFence(text string) error {
	return newError(codes.InvalidArgument,
		fmt.Sprintf("the fencing token in metadata %q %s", FenceKey, text), nil)
}

// stripFence returns a context in which no token came with the call.
func stripFence(ctx context.Context) context.Context {
	md, _ := metadata.FromIncomingContext(ctx) // a copy
	if _, there := md[FenceKey]; !there {
		return ctx
	}
	md.Delete(FenceKey)
	return metadata.NewIncomingContext(ctx, md)
}

// accept does with the token that came with a call what AcceptFence or StripFence asks for.
func (in *interceptor) accept(ctx context.Context) (context.Context, error) {
	switch {
	case in.fence:
		return ExtractFence(ctx)
	case in.strip:
		return stripFence(ctx), nil
	default:
		return ctx, nil
	}
}
