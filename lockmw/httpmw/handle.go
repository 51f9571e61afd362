package httpmw

import (
	"fmt"
	"net/http"
	"reflect"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
	"github.com/lockbeat/lockbeat/renewer"
)

// Handle returns a handler that decodes a request's body, as JSON, and runs fn under the lock on
// the name that key derives from it; [Codec.Handle] is for other bodies. The name is taken as it
// is: see [KeyFunc]. Otherwise Handle is like [Exclusive]. It panics if k, key or fn is nil.
//
// No lock is asked for if the body is unusable: 400 if it can't be decoded, 413 if it is above
// [MaxBody]. JSON in which an object has a name twice is refused, since parsers differ in which of
// the two they take.
func Handle[T any](
	k *renewer.Keeper, key func(T) string, fn func(http.ResponseWriter, *http.Request, T),
	opts ...Option,
) http.Handler {
	return handle(k, key, fn, opts, func(_ *http.Request, data []byte) (in T, err error) {
		err = wire.DecodeJSON(data, wire.Into(&in))
		return in, err
	})
}

// Codec decodes requests whose bodies are not JSON, for its [Codec.Handle]. Their bodies are in
// memory. It may be called concurrently.
type Codec[T any] func(*http.Request) (T, error)

// Handle is the function [Handle], except that c decodes the requests. It panics if c is nil, too.
func (c Codec[T]) Handle(
	k *renewer.Keeper, key func(T) string, fn func(http.ResponseWriter, *http.Request, T),
	opts ...Option,
) http.Handler {
	if c == nil {
		panic("lockbeat: httpmw.Codec needs a function that decodes a request")
	}
	return handle(k, key, fn, opts, func(r *http.Request, _ []byte) (T, error) { return c(r) })
}

// handle is Handle. decode has the request and its body.
func handle[T any](
	k *renewer.Keeper, key func(T) string, fn func(http.ResponseWriter, *http.Request, T),
	opts []Option, decode func(r *http.Request, data []byte) (T, error),
) http.Handler {
	if k == nil || key == nil || fn == nil {
		panic("lockbeat: httpmw.Handle needs a keeper (renewer.New), a key function and a function")
	}
	set := newSettings(k, opts)
	if set.streamBody {
		panic("lockbeat: httpmw.StreamBody is for httpmw.Exclusive: httpmw.Handle decodes the " +
			"body before it asks for the lock")
	}
	g := newGuard(k, set)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, restore, err := httpguard.ReadBody(w, r, g.maxBody)
		defer restore()
		if err != nil {
			g.refuse(w, r, err)
			return
		}
		in, err := decode(r, data)
		if err != nil {
			g.refuse(w, r, undecoded(r, reflect.TypeFor[T](), err))
			return
		}
		g.serve(w, r, key(in), func(w http.ResponseWriter, r *http.Request) { fn(w, r, in) })
	})
}

// undecoded is why a request was refused whose body could not be decoded as a kind.
func undecoded(r *http.Request, kind reflect.Type, err error) error {
	if r.Context().Err() != nil {
		return httpguard.Ended(r)
	}
	return fmt.Errorf("%w: it is no %v: %w", ErrBody, kind, err)
}
