package httpmw

import (
	"fmt"
	"net/http"
	"reflect"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
	"github.com/lockbeat/lockbeat/renewer"
)

// Handle returns a handler that decodes a request's body, as JSON unless [Codec] says otherwise,
// and runs fn under the lock on the name that key derives from it. The name is taken as it is:
// see [KeyFunc]. Otherwise Handle is like [Exclusive]. It panics if k, key or fn is nil.
//
// No lock is asked for if the body is unusable: 400 if it can't be decoded, 413 if it is above
// [MaxBody]. JSON in which an object has a name twice is refused, since parsers differ in which of
// the two they take.
func Handle[T any](
	k *renewer.Keeper, key func(T) string, fn func(http.ResponseWriter, *http.Request, T),
	opts ...HandleOption,
) http.Handler {
	if k == nil || key == nil || fn == nil {
		panic("lockbeat: httpmw.Handle needs a keeper (renewer.New), a key function and a function")
	}
	set := newSettings()
	for _, o := range opts {
		o.handle(&set)
	}
	set.checkMaxHold(k)
	if set.streamBody {
		panic("lockbeat: httpmw.StreamBody is for httpmw.Exclusive: httpmw.Handle decodes the " +
			"body before it asks for the lock")
	}
	codec, fits := set.codec.(func(*http.Request) (T, error))
	if set.codec != nil && !fits {
		panic(fmt.Sprintf("lockbeat: httpmw.Codec decodes another type than this httpmw.Handle "+
			"takes, which is %v", reflect.TypeFor[T]()))
	}
	g := newGuard(k, set)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, restore, err := httpguard.ReadBody(w, r, g.maxBody)
		defer restore()
		if err != nil {
			g.refuse(w, r, err)
			return
		}
		in, err := decode(r, data, codec)
		if err != nil {
			g.refuse(w, r, err)
			return
		}
		g.serve(w, r, key(in), func(w http.ResponseWriter, r *http.Request) { fn(w, r, in) })
	})
}

// Codec has [Handle] decode requests by a function in place of JSON. Their bodies are in memory. It
// is for the same T as Handle: otherwise that panics. The function may be called concurrently.
// Codec panics if it is nil.
func Codec[T any](decode func(*http.Request) (T, error)) HandleOption {
	if decode == nil {
		panic("lockbeat: httpmw.Codec needs a function that decodes a request's body")
	}
	return handleOption(func(s *settings) { s.codec = decode })
}

// decode returns a request's body, which is data, as a T.
func decode[T any](
	r *http.Request, data []byte, codec func(*http.Request) (T, error),
) (in T, err error) {
	if codec != nil {
		in, err = codec(r)
	} else {
		err = wire.DecodeJSON(data, wire.Into(&in))
	}
	switch {
	case err == nil:
		return in, nil
	case r.Context().Err() != nil:
		return in, httpguard.Ended(r)
	default:
		return in, fmt.Errorf("%w: it is no %v: %w", ErrBody, reflect.TypeFor[T](), err)
	}
}
