package httpmw

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"sync/atomic"

	"github.com/felixge/httpsnoop"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
	"github.com/lockbeat/lockbeat/renewer"
)

// Wrap returns a handler that decodes a request's body, as JSON, and runs fn
// under the lock on the name that key makes of it. Otherwise it is like
// [Middleware]. JSON in which an object has a name twice is refused, since
// parsers differ in which of the two they take.
func Wrap[T any, N lockmw.Name](
	k *renewer.Keeper, key func(T) N, fn func(http.ResponseWriter, *http.Request, T),
	opts ...Option,
) http.Handler {
	return wrap(k, key, fn, opts, func(_ *http.Request, data []byte) (in T, err error) {
		err = wire.DecodeJSON(data, wire.Into(&in))
		return in, err
	})
}

// WrapWith is [Wrap] for requests that are not JSON. decode reads the body from
// memory, and may be called concurrently.
func WrapWith[T any, N lockmw.Name](
	k *renewer.Keeper, decode func(*http.Request) (T, error), key func(T) N,
	fn func(http.ResponseWriter, *http.Request, T), opts ...Option,
) http.Handler {
	if decode == nil {
		panic("lockbeat: httpmw.WrapWith needs a function that decodes a request")
	}
	return wrap(k, key, fn, opts, func(r *http.Request, _ []byte) (T, error) { return decode(r) })
}

// wrap is Wrap. decode has the request and its body.
func wrap[T any, N lockmw.Name](
	k *renewer.Keeper, key func(T) N, fn func(http.ResponseWriter, *http.Request, T),
	opts []Option, decode func(r *http.Request, data []byte) (T, error),
) http.Handler {
	if k == nil || key == nil || fn == nil {
		panic("lockbeat: httpmw.Wrap needs a keeper (renewer.New), a key function and a function")
	}
	set := newSettings(k, opts)
	if set.streamBody {
		panic("lockbeat: httpmw.StreamBody is for httpmw.Middleware: httpmw.Wrap decodes the " +
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
		name := names.Set(lockmw.All(key(in)))
		if err := httpguard.CheckName(r, name); err != nil {
			g.refuse(w, r, err)
			return
		}
		g.serve(w, r, name, func(w http.ResponseWriter, r *http.Request) { fn(w, r, in) })
	})
}

// undecoded is why a request was refused whose body could not be decoded as a
// kind.
func undecoded(r *http.Request, kind reflect.Type, err error) error {
	if r.Context().Err() != nil {
		return httpguard.Ended(r)
	}
	return fmt.Errorf("%w: it is no %v: %w", ErrBody, kind, err)
}

// track returns w with the same optional interfaces, and whether anything of
// the answer has been written to it. A connection that the handler has taken
// over counts as written.
func track(w http.ResponseWriter) (http.ResponseWriter, *atomic.Bool) {
	wrote := new(atomic.Bool)
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) {
				// Other codes below 200 announce an answer, and are none.
				if code >= http.StatusOK || code == http.StatusSwitchingProtocols {
					wrote.Store(true)
				}
				next(code)
			}
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(p []byte) (int, error) {
				wrote.Store(true)
				return next(p)
			}
		},
		WriteString: func(next httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
			return func(s string) (int, error) {
				wrote.Store(true)
				return next(s)
			}
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) {
				wrote.Store(true)
				return next(src)
			}
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() {
				wrote.Store(true)
				next()
			}
		},
		FlushError: func(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error {
				wrote.Store(true)
				return next()
			}
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, buffered, err := next()
				if err == nil {
					wrote.Store(true)
				}
				return conn, buffered, err
			}
		},
	}), wrote
}
