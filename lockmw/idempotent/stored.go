package idempotent

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
)

// replayedHeader is "true" on a stored answer that is sent again.
const replayedHeader = "Idempotent-Replayed"

// answer is an answer as it is stored, in JSON. Older releases' answers must
// stay readable.
type answer struct {
	Status  int         `json:"status"`
	Header  http.Header `json:"header,omitempty"`
	Body    []byte      `json:"body,omitempty"`
	Trailer http.Header `json:"trailer,omitempty"`

	large bool // it has outgrown MaxAnswer, and the rest of the struct is empty but for the status
}

// encodeAnswer returns what is to be stored, nil if there is more than can be.
func encodeAnswer(a answer) []byte {
	if a.large {
		return nil
	}
	data, _ := json.Marshal(a) // texts and a number: it does not fail
	return data
}

// decodeAnswer reads a stored answer. Another program may have stored it.
func decodeAnswer(data []byte, a *answer) error {
	if err := json.Unmarshal(data, a); err != nil {
		return err
	}
	if a.Status < http.StatusOK || a.Status > 999 {
		return fmt.Errorf("no answer has status %d", a.Status)
	}
	return nil
}

// replay sends the answer.
func (a answer) replay(w http.ResponseWriter) {
	maps.Copy(w.Header(), replayable(a.Header))
	w.Header().Set(replayedHeader, "true")
	write(w, a.Status, a.Body, replayable(a.Trailer))
}

// replayable returns those fields that belong to the answer, made fit to be
// sent: another program may have stored them, and not every writer checks what
// it sends.
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

// isToken reports whether a field can have this name. Source: RFC 9110, 5.6.2.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
			!strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	})
}

// printable returns a space for a control character that a field's value can't have.
func printable(c rune) rune {
	if c < ' ' && c != '\t' || c == 0x7f {
		return ' '
	}
	return c
}

// write sends an answer.
func write(w http.ResponseWriter, status int, body []byte, trailer http.Header) {
	h := w.Header()
	switch {
	case len(trailer) > 0: // HTTP/1 sends it behind a body of unknown length only
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

// setTrailer has an answer end with the fields of trailer. The status must have been sent.
func setTrailer(h, trailer http.Header) {
	for name, values := range trailer {
		delete(h, name) // as a header it would be sent a second time, behind the body
		h[http.TrailerPrefix+name] = values
	}
}

// isTrailer reports whether a header is a trailer, by the prefix of its name.
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
		"Content-Length", "Date", "Set-Cookie", replayedHeader, httpguard.RefusedHeader:
		return true
	default:
		return isTrailer(name)
	}
}
