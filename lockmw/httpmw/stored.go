package httpmw

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// answer is what is stored.
type answer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`

	large bool // and has not been kept
}

// errLarge means that an answer has outgrown what can be stored.
var errLarge = errors.New("lockbeat: the answer is larger than MaxAnswer")

// encodeAnswer makes what is stored.
func encodeAnswer(v any) ([]byte, error) {
	a := v.(answer) //nolint:forcetypeassert // once gives what Do returns
	if a.large {
		return nil, errLarge
	}
	return json.Marshal(a)
}

// decodeAnswer reads what has been stored, which may be another program's.
func decodeAnswer(data []byte, v any) error {
	a := v.(*answer) //nolint:forcetypeassert // once gives a pointer to what Do returns
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
	h := w.Header()
	for name, values := range a.Header {
		if !passing(name) {
			h[http.CanonicalHeaderKey(name)] = slices.Clone(values)
		}
	}
	h.Set(ReplayedHeader, "true")
	write(w, a.Status, a.Body)
}

func write(w http.ResponseWriter, status int, body []byte) {
	if allowsBody(status) {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if len(body) > 0 {
		_, _ = w.Write(body) // to a client that has gone, or HEAD
	}
}

func allowsBody(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

// passing tells whether a header belongs to one connection, one moment or one client's session, and not to the answer.
func passing(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", // RFC 9110, 7.6.1
		"Content-Length", "Date", "Set-Cookie", ReplayedHeader:
		return true
	default:
		return false
	}
}
