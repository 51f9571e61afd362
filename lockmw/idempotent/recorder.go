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
)

// recorder is the handler's writer: it keeps the answer until it can be sent. One that is too large
// to be stored is sent as it comes.
type recorder struct {
	w      http.ResponseWriter
	most   int         // bytes of body that it keeps
	header http.Header // with those that outer middleware has set, as the handler expects

	sent    http.Header // when the status was written
	status  int         // 0: not yet
	refused bool        // by a guard of ours further in
	large   bool        // the answer has outgrown most, and what there is of it has gone out
	body    bytes.Buffer
}

// newRecorder returns the writer for an answer of which n bytes, in their stored form, are kept.
func newRecorder(w http.ResponseWriter, n int) *recorder {
	return &recorder{w: w, most: base64.StdEncoding.DecodedLen(n), header: w.Header().Clone()}
}

// Header is the answer's.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader settles the status. Those below 200 announce it, and are told at once.
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

// announce sends a status that others follow, with the headers that the handler has set by now.
func (r *recorder) announce(status int) {
	h := r.w.Header()
	outer := maps.Clone(h)
	setHeaders(h, r.header)
	r.w.WriteHeader(status)
	setHeaders(h, outer)
}

// Write adds to the body. It fails only if the answer has no body, or, once the answer is sent as
// it comes, if the client has gone.
func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	switch {
	case !allowsBody(r.status):
		return 0, http.ErrBodyNotAllowed
	case r.large:
		return r.w.Write(p)
	case r.body.Len()+len(p) <= r.most:
		return r.body.Write(p)
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

// answer is what the handler has answered by now, in the form that is
// stored: without what outer middleware has set, which it will set again.
func (r *recorder) answer() answer {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.large {
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

// overtaken tells whether the answer on record is another's.
func (r *recorder) overtaken(kept answer) bool {
	return kept.Status != r.status || !bytes.Equal(kept.Body, r.body.Bytes())
}

// send sends the answer that the handler has given, with all of its headers, or what has not been
// sent of it yet.
func (r *recorder) send() {
	if r.large {
		setTrailer(r.w.Header(), r.trailer())
		return
	}
	setHeaders(r.w.Header(), r.sent)
	write(r.w, r.status, r.body.Bytes(), r.trailer())
}

// trailer is what the handler has set for behind the body: the fields that it has announced, and
// those named by http.TrailerPrefix.
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

// SetReadDeadline, SetWriteDeadline and EnableFullDuplex are the connection's, for
// http.ResponseController. What would send the answer, or take the connection over, is not there,
// and so neither is Unwrap.
func (r *recorder) SetReadDeadline(t time.Time) error {
	return http.NewResponseController(r.w).SetReadDeadline(t)
}

// SetWriteDeadline is the connection's: it counts when the answer is sent, and so may be set at any
// time before.
func (r *recorder) SetWriteDeadline(t time.Time) error {
	return http.NewResponseController(r.w).SetWriteDeadline(t)
}

// EnableFullDuplex is the connection's.
func (r *recorder) EnableFullDuplex() error {
	return http.NewResponseController(r.w).EnableFullDuplex()
}

// setHeaders makes the headers in h those of another.
func setHeaders(h, others http.Header) {
	clear(h)
	maps.Copy(h, others)
}
