package grpcmw

import (
	"context"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
)

// FenceKey is the metadata in which a fencing token goes along with a call.
const FenceKey = "lockbeat-fence"

// InjectFence adds the token of the innermost lock that ctx runs under, lockmw.Fence, to the
// metadata that calls made with the returned context send, in place of one that is there. Without a
// lock it returns ctx. A lock that was lost still gives its token, which resources refuse once they
// have seen a later one. [PassFence] does it for every call.
func InjectFence(ctx context.Context) context.Context {
	fence := lockmw.Fence(ctx)
	if fence == 0 {
		return ctx
	}
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	if md == nil {
		md = make(metadata.MD, 1)
	}
	md.Set(FenceKey, wire.FormatFence(fence))
	return metadata.NewOutgoingContext(ctx, md)
}

// ExtractFence returns a context in which lockmw.Fence is the token that came with the call, or ctx
// if none did. The loss of the caller's lock is not heard of here: the token stays what it is, and
// the resource that it is given to decides. A token that is repeated or no positive decimal
// number is an error with codes.InvalidArgument; the context is ctx then too. Take tokens only from
// callers that you trust: a resource that has seen one too high refuses everybody else.
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
		return ctx, badFence("is not a positive decimal number")
	default:
		return ctx, badFence(fmt.Sprintf("is given %d times", len(values)))
	}
}

func badFence(text string) error {
	return newError(codes.InvalidArgument, fmt.Sprintf("the fencing token in metadata %q %s", FenceKey, text), nil)
}

// accept does ExtractFence if AcceptFence asks for it.
func (in *interceptor) accept(ctx context.Context) (context.Context, error) {
	if !in.fence {
		return ctx, nil
	}
	return ExtractFence(ctx)
}

// pass does InjectFence if PassFence asks for it.
func (in *interceptor) pass(ctx context.Context) context.Context {
	if !in.fence {
		return ctx
	}
	return InjectFence(ctx)
}
