package httpmw

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// answer is what is stored.
type answer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body,omitempty"`
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

// recorder is the handler's writer: it keeps the answer until it can be sent.
type recorder struct {
	w       http.ResponseWriter
	header  http.Header // with those that outer middleware has set, as the handler expects
	sent    http.Header // when the status was written
	status  int         // 0: not yet
	refused bool        // by a guard of ours further in
	body    bytes.Buffer
}

func newRecorder(w http.ResponseWriter) *recorder { return &recorder{w: w, header: w.Header().Clone()} }

// Header is the answer's.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader settles the status. Those below 200 are told at once.
func (r *recorder) WriteHeader(status int) {
	switch {
	case r.status != 0:
	case status < http.StatusOK:
		r.w.WriteHeader(status)
	default:
		r.status, r.sent = status, r.header.Clone()
		r.refused = r.sent.Get(refusedHeader) != ""
		r.sent.Del(refusedHeader)
	}
}

// Write adds to the body.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if !allowsBody(r.status) {
		return 0, http.ErrBodyNotAllowed
	}
	return r.body.Write(p)
}

// answer is what the handler has answered by now, in the form that is stored: without what outer middleware has set, which it will set again.
func (r *recorder) answer() answer {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if _, set := r.sent["Content-Type"]; !set && r.sent.Get("Content-Encoding") == "" && r.body.Len() > 0 {
		r.sent.Set("Content-Type", http.DetectContentType(r.body.Bytes())) // as net/http would
	}
	a := answer{Status: r.status, Body: r.body.Bytes()}
	outer := r.w.Header()
	for name, values := range r.sent {
		if passing(name) || slices.Equal(values, outer[name]) {
			continue
		}
		if a.Header == nil {
			a.Header = make(http.Header)
		}
		a.Header[name] = values
	}
	return a
}

// overtaken tells whether the answer on record is another's.
func (r *recorder) overtaken(kept answer) bool {
	return kept.Status != r.status || !bytes.Equal(kept.Body, r.body.Bytes())
}

// send sends the answer that the handler has given, with all of its headers.
func (r *recorder) send() {
	h := r.w.Header()
	for name := range h {
		if _, ok := r.sent[name]; !ok {
			delete(h, name)
		}
	}
	maps.Copy(h, r.sent)
	write(r.w, r.status, r.body.Bytes())
}
