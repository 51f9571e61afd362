package httpmw

import (
	"context"
	"errors"
	"net/http"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
)

// fenceHeader carries a fencing token from one process to the next: a decimal
// number from 1 to 2^53-1, which JavaScript, Lua and JSON can hold.
const fenceHeader = "Lockbeat-Fence"

// InjectFence writes the fencing token that ctx runs under into the headers of
// a request, "Lockbeat-Fence", for [ReceiveFence] on the server. Without a
// token it removes the header, so that none is passed on that came with another
// request.
func InjectFence(ctx context.Context, h http.Header) {
	if fence := lockmw.Fence(ctx); fence > 0 {
		h.Set(fenceHeader, wire.FormatFence(fence))
	} else {
		h.Del(fenceHeader)
	}
}

// ReceiveFence is middleware by which lockmw.Fence is the token that came with the
// request, unless the handler runs under a lock of this process. A header that is
// malformed, repeated, not positive or above 2^53-1 is answered with 400. It is for
// trusted callers: a resource that has seen a token too high refuses all others. So
// delete the header "Lockbeat-Fence" at the edge of the system, where requests come in
// from outside. It panics if next is nil.
func ReceiveFence(next http.Handler) http.Handler {
	if next == nil {
		panic("lockbeat: httpmw.ReceiveFence needs a handler")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.Header.Values(fenceHeader)
		if len(values) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		fence, usable := wire.ParseFence(values[0])
		if !usable || len(values) > 1 {
			Respond(w, r, errFence)
			return
		}
		httpguard.Serve(scope.WithFence(r.Context(), fence), w, r, next.ServeHTTP)
	})
}

var errFence = &Error{
	Status: http.StatusBadRequest, Type: httpguard.TypeBadRequest, Title: "Bad request",
	Detail: "The request needs one header " + fenceHeader + " with a fencing token, or none." +
		httpguard.NothingDone,
	Err: errors.New("lockbeat: unusable fencing token"),
}
