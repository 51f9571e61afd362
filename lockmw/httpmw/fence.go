package httpmw

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
)

// FenceHeader carries a fencing token from one process to the next: a positive decimal number.
const FenceHeader = "Lockbeat-Fence"

// ErrFence means that a request's [FenceHeader] is no fencing token. The answer is a 400.
var ErrFence = errors.New("lockbeat: unusable fencing token")

// InjectFence writes the fencing token that ctx runs under into the headers of a request, for [ExtractFence] on the far side. Without
// one it removes the header, so that a token which came with a request is not passed on with another.
func InjectFence(ctx context.Context, h http.Header) {
	if fence := lockmw.Fence(ctx); fence > 0 {
		h.Set(FenceHeader, wire.FormatFence(fence))
	} else {
		h.Del(FenceHeader)
	}
}

// ExtractFence returns a context in which lockmw.Fence is the token that came with a request, and ctx itself if none did. A header that is
// malformed, repeated or not positive makes an error that is [ErrFence]. Use it for trusted callers only: a resource that has seen a
// token too high refuses everybody else. At the edge of a system remove the header.
func ExtractFence(ctx context.Context, h http.Header) (context.Context, error) {
	values := h.Values(FenceHeader)
	switch {
	case len(values) == 0:
		return ctx, nil
	case len(values) > 1:
		return nil, fmt.Errorf("%w: the header %s is there %d times, send it once", ErrFence, FenceHeader, len(values))
	}
	fence, ok := wire.ParseFence(values[0])
	if !ok {
		return nil, fmt.Errorf("%w: the header %s is no positive decimal number; write it with httpmw.InjectFence", ErrFence, FenceHeader)
	}
	return lockmw.WithFence(ctx, fence), nil
}

// ReceiveFence is middleware that gives handlers the fencing token which came with the request: see [ExtractFence], also for whom
// to trust. One that is unusable is answered with 400.
func ReceiveFence(next http.Handler) http.Handler {
	if next == nil {
		panic("lockbeat: httpmw.ReceiveFence needs a handler")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, err := ExtractFence(r.Context(), r.Header)
		if err != nil {
			Respond(w, r, err)
			return
		}
		pass(ctx, w, r, next.ServeHTTP)
	})
}
