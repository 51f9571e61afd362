package idempotent

import (
	"bytes"
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
)

// recorder is the handler's writer. It keeps the answer until that is stored.
// An answer that is too large to be stored is sent as the handler writes it,
// unless its transaction could still be rolled back.
type recorder struct {
	w      http.ResponseWriter
	most   int         // bytes of body that it keeps
	header http.Header // includes what outer middleware has set, as the handler expects
	keep   func(status int) bool
	whole  bool // a final answer goes out when it is stored, or not at all

	sent    http.Header // as it was when the status was written
	status  int         // 0: not yet
	refused bool        // by a guard of ours further in
	large   bool        // the answer has outgrown most, and what there is of it has gone out
	dropped bool        // the answer has outgrown most, and none of it goes out
	body    bytes.Buffer
}

// newRecorder returns the writer for an answer of which MaxAnswer bytes, in
// their stored form, are kept.
func (e *exchange) newRecorder() *recorder {
	return &recorder{
		w: e.w, most: base64.StdEncoding.DecodedLen(e.maxAnswer), header: e.w.Header().Clone(),
		keep: e.KeepStatus, whole: e.transactional,
	}
}

// Header is the answer's.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader sets the status. A status below 200 is sent at once, and others
// follow it.
func (r *recorder) WriteHeader(status int) {
	switch {
	case r.status != 0:
	case status < http.StatusOK:
		r.announce(status)
	default:
		r.status, r.sent = status, r.header.Clone()
		r.refused = httpguard.TakeMark(r.sent)
		maps.DeleteFunc(r.sent, func(name string, _ []string) bool { return isTrailer(name) })
	}
}

// announce sends a status below 200, with the headers that the handler has set
// by now.
func (r *recorder) announce(status int) {
	h := r.w.Header()
	outer := maps.Clone(h)
	setHeaders(h, r.header)
	r.w.WriteHeader(status)
	setHeaders(h, outer)
}

// Write adds to the body. It fails if the status allows no body, and if the
// answer is too large and can't be sent before it is stored. When the answer is
// sent as the handler writes it, Write fails if the client has gone.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	switch {
	case !allowsBody(r.status):
		return 0, http.ErrBodyNotAllowed
	case r.large:
		return r.w.Write(p)
	case r.body.Len()+len(p) <= r.most && !r.dropped:
		return r.body.Write(p)
	case r.whole && r.final():
		r.dropped = true
		return 0, repeat.ErrLarge
	}
	r.large = true
	setHeaders(r.w.Header(), r.sent)
	r.w.WriteHeader(r.status)
	if r.body.Len() > 0 {
		if _, err := r.body.WriteTo(r.w); err != nil {
			return 0, err
		}
	}
	return r.w.Write(p)
}

// answer returns what the handler has answered by now, in the form that is
// stored: without what outer middleware has set, since it will set that again.
func (r *recorder) answer() answer {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.large || r.dropped {
		return answer{Status: r.status, large: true}
	}
	if _, set := r.sent["Content-Type"]; !set && r.sent.Get("Content-Encoding") == "" &&
		r.body.Len() > 0 {
		r.sent.Set("Content-Type", http.DetectContentType(r.body.Bytes())) // as net/http would
	}
	a := answer{Status: r.status, Body: r.body.Bytes(), Trailer: replayable(r.trailer())}
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

// final reports whether the handler's answer is to be stored. An error with
// Retry-After is not, whatever its status: it asks the client to come again. (A
// 202 with Retry-After says when to ask for the result of what has been begun.)
func (r *recorder) final() bool {
	again := r.status >= http.StatusBadRequest && r.sent.Get("Retry-After") != ""
	return !r.refused && !again && r.keep(r.status)
}

// send sends the handler's answer with all of its headers, or what has not been
// sent of it yet.
func (r *recorder) send() {
	if r.large {
		setTrailer(r.w.Header(), r.trailer())
		return
	}
	setHeaders(r.w.Header(), r.sent)
	write(r.w, r.status, r.body.Bytes(), r.trailer())
}

// trailer returns the trailers that the handler has set: the fields
// that it has announced, and those whose names have http.TrailerPrefix.
func (r *recorder) trailer() http.Header {
	t := make(http.Header)
	for _, announced := range r.sent["Trailer"] {
		for name := range strings.SplitSeq(announced, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if values, set := r.header[name]; set {
				t[name] = values
			}
		}
	}
	for key, values := range r.header {
		if name, ok := strings.CutPrefix(key, http.TrailerPrefix); ok {
			t[http.CanonicalHeaderKey(name)] = values
		}
	}
	return t
}

// SetReadDeadline sets the connection's, for http.ResponseController, as
// SetWriteDeadline and EnableFullDuplex do. The recorder has no method that
// would send the answer or take the connection over, and so it has no Unwrap
// either.
func (r *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(r.w).SetReadDeadline(t)
}

// SetWriteDeadline sets the connection's. It counts when the answer is sent,
// and may be set at any time before.
func (r *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(r.w).SetWriteDeadline(t)
}

// EnableFullDuplex is the connection's.
func (r *recorder) EnableFullDuplex() error {
	return http.NewResponseController(r.w).EnableFullDuplex()
}

// setHeaders replaces the headers in h.
func setHeaders(h, others http.Header) {
	clear(h)
	maps.Copy(h, others)
}
