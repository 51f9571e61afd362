package idempotent

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
)

// ReplayedHeader is "true" on an answer that was given before.
const ReplayedHeader = "Idempotent-Replayed"

// answer is what is stored.
type answer struct {
	Status  int         `json:"status"`
	Header  http.Header `json:"header,omitempty"`
	Body    []byte      `json:"body,omitempty"`
	Trailer http.Header `json:"trailer,omitempty"`

	large bool // and has not been kept
}

// errLarge means that an answer has outgrown what can be stored.
var errLarge = errors.New("lockbeat: the answer is larger than MaxAnswer")

// encodeAnswer makes what is stored, unless that has more than most bytes for sure.
func encodeAnswer(a answer, most int) ([]byte, error) {
	if a.large || a.atLeast() > most {
		return nil, errLarge
	}
	return json.Marshal(a)
}

// atLeast is a number of bytes that an answer has when it is encoded, and may exceed.
func (a answer) atLeast() int {
	n := base64.StdEncoding.EncodedLen(len(a.Body))
	for _, fields := range []http.Header{a.Header, a.Trailer} {
		for name, values := range fields {
			n += len(name)
			for _, v := range values {
				n += len(v)
			}
		}
	}
	return n
}

// decodeAnswer reads what has been stored, which may be another program's.
func decodeAnswer(data []byte, a *answer) error {
	if err := json.Unmarshal(data, a); err != nil {
		return err
	}
	if a.Status < http.StatusOK || a.Status > 999 {
		return fmt.Errorf("no answer has status %d", a.Status)
	}
	return nil
}

// replay sends an answer that was given before.
func (a answer) replay(w http.ResponseWriter) {
	maps.Copy(w.Header(), replayable(a.Header))
	w.Header().Set(ReplayedHeader, "true")
	write(w, a.Status, a.Body, replayable(a.Trailer))
}

// replayable are those fields that belong to the answer, fit to be sent: another program may have
// stored them, and not every writer looks at what it sends.
func replayable(fields http.Header) http.Header {
	kept := make(http.Header, len(fields))
	for name, values := range fields {
		if passing(name) || !isToken(name) {
			continue
		}
		name, values = http.CanonicalHeaderKey(name), slices.Clone(values)
		for i := range values {
			values[i] = strings.Map(printable, values[i])
		}
		kept[name] = append(kept[name], values...)
	}
	return kept
}

// isToken reports whether a name can be that of a field, by RFC 9110, 5.6.2.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// printable makes spaces of the control characters that a field's value can't have.
func printable(c rune) rune {
	if c < ' ' && c != '\t' || c == 0x7f {
		return ' '
	}
	return c
}

func write(w http.ResponseWriter, status int, body []byte, trailer http.Header) {
	h := w.Header()
	switch {
	case len(trailer) > 0: // which HTTP/1 sends behind a body of unknown length only
		h.Del("Content-Length")
		h["Trailer"] = slices.Sorted(maps.Keys(trailer))
	case allowsBody(status):
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = w.Write(body) // to a client that has gone, or HEAD
	}
	setTrailer(h, trailer)
}

// setTrailer has an answer end with the fields of trailer. It is for when the status has been sent.
func setTrailer(h, trailer http.Header) {
	for name, values := range trailer {
		delete(h, name) // it may be there as a header too, and would be sent behind the body twice
		h[http.TrailerPrefix+name] = values
	}
}

// isTrailer reports whether a header is one for behind the body, by its name.
func isTrailer(name string) bool { return strings.HasPrefix(name, http.TrailerPrefix) }

func allowsBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// passing reports whether a header belongs to one connection, one moment or one client's session,
// and not to the answer.
func passing(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade",
		// RFC 9110, 7.6.1
		"Content-Length", "Date", "Set-Cookie", ReplayedHeader, httpguard.RefusedHeader:
		return true
	default:
		return isTrailer(name)
	}
}
