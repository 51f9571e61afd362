package httpmw

import (
	"fmt"
	"io"
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
// [MaxBody], 408 if it comes more slowly than [BodyTimeout] allows. JSON in which an object has a
// name twice is refused, since parsers differ in which of the two they take.
func Handle[T any](
	k *renewer.Keeper, key func(T) string, fn func(http.ResponseWriter, *http.Request, T),
	opts ...HandleOption,
) http.Handler {
	if k == nil || key == nil || fn == nil {
		panic("lockbeat: httpmw.Handle needs a keeper (renewer.New), a key function and a function")
	}
	set := newSettings()
	set.maxBody, set.codec = DefaultMaxBody, decodeJSON
	for _, o := range opts {
		o.handle(&set)
	}
	set.checkMaxHold(k)
	if set.streamBody {
		panic("lockbeat: httpmw.StreamBody is for httpmw.Exclusive: httpmw.Handle decodes the " +
			"body before it asks for the lock")
	}
	g := newGuard(k, set)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, err := g.clients.sender(r)
		if err != nil {
			g.refuse(w, r, httpguard.KeyFault(r, err))
			return
		}
		data, err := httpguard.ReadBody(w, r, g.maxBody, g.bodyTimeout)
		if err != nil {
			g.refuse(w, r, err)
			return
		}
		body := r.Body
		r.Body = httpguard.Keep(data, body)
		defer func() { r.Body = body }() // net/http looks at the type of its own body
		in, err := decode[T](r, g.codec)
		if err != nil {
			g.refuse(w, r, err)
			return
		}
		g.serve(w, r, ask{key(in), client}, func(w http.ResponseWriter, r *http.Request) {
			fn(w, r, in)
		})
	})
}

// Codec decodes bodies by unmarshal in place of JSON. The function gets the request, whose
// body is in memory, and a pointer to a T to decode into. If T is a pointer itself, such as a
// *pb.Transfer, it gets a T. It may be called concurrently. Codec panics if unmarshal is nil.
func Codec(unmarshal func(r *http.Request, v any) error) HandleOption {
	if unmarshal == nil {
		panic("lockbeat: httpmw.Codec needs a function that decodes a request's body")
	}
	return handleOption(func(s *settings) { s.codec = unmarshal })
}

// decode returns a request's body as a T.
func decode[T any](r *http.Request, codec func(*http.Request, any) error) (in T, err error) {
	if err := codec(r, wire.Into(&in)); err != nil {
		if r.Context().Err() != nil {
			return in, httpguard.Ended(r)
		}
		return in, fmt.Errorf("%w: it is no %v: %w", ErrBody, reflect.TypeFor[T](), err)
	}
	return in, nil
}

func decodeJSON(r *http.Request, v any) error {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	return wire.DecodeJSON(data, v)
}
