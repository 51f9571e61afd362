package httpmw

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw"
)

// KeyFunc derives a lock's name from a request. The name is taken as it is, so that handlers
// can share a lock with each other and with lockmw.Do: make it with [lockmw.Key]. An empty
// name, one above renewer.MaxName bytes, and an error are answered with 400, and no lock is
// asked for. An error that is an [*Error] says itself what is answered. A KeyFunc may be
// called concurrently. It must not read the body: for a name from the body there is [Handle].
//
// It must read the request as the handler does. "7", "07" and "%207" are three names. To a handler
// that parses numbers they are one account, which three clients then change at once. So prefer a
// function that knows the type: [PathInt], [PathUUID] or [PathAs], or [Handle], whose function gets
// what the name was derived from. [PathValue] and [Header] are for values that the handler compares
// byte by byte. Begin what clients choose with a static prefix, as [lockmw.Key] does, so that it is
// no other lock's name.
type KeyFunc func(*http.Request) (string, error)

// Header names the lock by a header: lockmw.Key of the header's canonical name
// and its value, such as "Idempotency-Key:8e03". A header that is missing, empty,
// repeated or has control bytes is answered with 400. It panics if name is empty.
func Header(name string) KeyFunc {
	if name == "" {
		panic(`lockbeat: httpmw.Header needs the name of a header, such as "Idempotency-Key"`)
	}
	name = http.CanonicalHeaderKey(name)
	return func(r *http.Request) (string, error) {
		switch values := r.Header[name]; {
		case len(values) == 0 || values[0] == "":
			return "", fmt.Errorf("%w: the header %s is missing", ErrKey, name)
		case len(values) > 1:
			return "", fmt.Errorf("%w: the header %s is there %d times, send it once", ErrKey, name,
				len(values))
		case strings.ContainsFunc(values[0], isControl):
			return "", fmt.Errorf("%w: the header %s has control bytes in it", ErrKey, name)
		default:
			return lockmw.Key(name, values[0]), nil
		}
	}
}

func isControl(c rune) bool { return c < ' ' || c == 0x7f }
