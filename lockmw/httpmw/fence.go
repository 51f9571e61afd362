package httpmw

import (
	"context"
	"fmt"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
)

// FenceHeader carries a fencing token from one process to the next: a decimal
// number from 1 to 2^53-1, which JavaScript, Lua and JSON can hold. Take it
// only from services behind the edge of the system ([ReceiveFence]). At the
// edge, where requests come in from outside, remove it ([StripFence]).
const FenceHeader = "Lockbeat-Fence"

// InjectFence writes the fencing token that ctx runs under into the headers of a
// request, for [ExtractFence] on the server. Without a token it removes the header,
// so that a token which came with one request is not passed on with another.
func InjectFence(ctx context.Context, h http.Header) {
	if fence := lockmw.Fence(ctx); fence > 0 {
		h.Set(FenceHeader, wire.FormatFence(fence))
	} else {
		h.Del(FenceHeader)
	}
}

// ExtractFence returns a context in which lockmw.Fence is the token that came with a
// request. If none came, or if ctx already runs under a lock of this process, it returns ctx
// itself. A header that is malformed, repeated, not positive or above 2^53-1 makes an error
// that is [ErrFence]. Use it for trusted callers only: a resource that has seen a token too
// high refuses all others. At the edge of a system remove the header: [StripFence].
func ExtractFence(ctx context.Context, h http.Header) (context.Context, error) {
	values := h.Values(FenceHeader)
	switch {
	case len(values) == 0:
		return ctx, nil
	case len(values) > 1:
		return nil, fmt.Errorf("%w: the header %s is there %d times, send it once", ErrFence,
			FenceHeader, len(values))
	}
	fence, ok := wire.ParseFence(values[0])
	if !ok {
		return nil, fmt.Errorf("%w: the header %s is no decimal number from 1 to 2^53-1; write "+
			"it with httpmw.InjectFence", ErrFence, FenceHeader)
	}
	return lockmw.WithFence(ctx, fence), nil
}

// ReceiveFence is middleware that gives handlers the fencing token which
// came with the request. See [ExtractFence], also for which callers to
// trust. An unusable token is answered with 400. It panics if next is nil.
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
		httpguard.Serve(ctx, w, r, next.ServeHTTP)
	})
}

// StripFence is middleware that removes the [FenceHeader] from requests, for the edge of a system.
// A gateway that copies the headers of its requests would pass on a token that an outsider has made
// up, and a token that is too high makes a resource refuse all others. It panics if next is nil.
func StripFence(next http.Handler) http.Handler {
	if next == nil {
		panic("lockbeat: httpmw.StripFence needs a handler")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, there := r.Header[FenceHeader]; !there {
			next.ServeHTTP(w, r)
			return
		}
		httpguard.Serve(r.Context(), w, r, func(w http.ResponseWriter, r *http.Request) {
			r.Header = r.Header.Clone() // the caller keeps its own
			r.Header.Del(FenceHeader)
			next.ServeHTTP(w, r)
		})
	})
}
