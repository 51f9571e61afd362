package idempotent

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/lockmw/once"
)

// ErrKey means that a request has no usable Idempotency-Key. The answer is a 400.
var ErrKey = repeat.ErrKey

// ErrQuota means that a request has a new key and its caller has used up
// MaxStored or MaxRunningPerCaller of [Config]. The request has not been
// carried out. The answer is a 429.
var ErrQuota = repeat.ErrQuota

// refusals are the answers to errors that package httpmw does not know, in the
// order in which they are looked for.
var refusals = []struct {
	err    error
	status int
	again  bool // it is worth asking again
	typ    string
	title  string
	detail string
}{
	{
		ErrKey, http.StatusBadRequest, false, httpguard.TypeBadRequest, "Bad request",
		"The request needs one header " + keyHeader + " of 1 to 255 visible ASCII characters." +
			httpguard.NothingDone,
	},
	{
		repeat.ErrTooMany, http.StatusTooManyRequests, true, httpguard.TypeTooMany,
		"Too many requests", "Too many requests of this caller with an " + keyHeader +
			" are being carried out." + httpguard.NothingDone,
	},
	{
		ErrQuota, http.StatusTooManyRequests, true, httpguard.TypeQuota, "Quota used up",
		"Too many answers to requests with an " + keyHeader + " are stored for this caller." +
			httpguard.NothingDone,
	},
	{
		once.ErrInput, http.StatusUnprocessableEntity, false, httpguard.TypeReused, "Key reused",
		"The " + keyHeader + " is that of another request: another method, host (with its " +
			"port), path, query, content type or body." + httpguard.NothingDone,
	},
	{
		once.ErrResult, http.StatusConflict, false, httpguard.TypeNotKept, "Done before",
		"A request with this " + keyHeader + " has been carried out, but its answer was too " +
			"large to be kept.",
	},
	{
		once.ErrRecord, http.StatusInternalServerError, false, "", "",
		"What is stored for this " + keyHeader + " can't be read. This request has not been " +
			"carried out; one before it may have been.",
	},
	{
		repeat.ErrLarge, http.StatusInternalServerError, false, "", "",
		"The answer is too large to be kept." + httpguard.NothingDone,
	},
	{
		once.ErrNotRecorded, http.StatusServiceUnavailable, true, httpguard.TypeUnknown,
		"Not known", "It is not known whether what the request did is on record. Send it again " +
			"with the same " + keyHeader + ": if it is, the answer is sent, and if not, the " +
			"request is carried out.",
	},
	{
		once.ErrConflict, http.StatusServiceUnavailable, true, httpguard.TypeBusy, "Conflict",
		"The request was undone, since it was in conflict with another one. Send it again." +
			httpguard.NothingDone,
	},
}

// explain returns the answer to err: this package's own, or package httpmw's.
// The request's faults come first, since a key function may return any error.
func explain(err error) *httpmw.Error {
	e := httpmw.ErrorOf(err)
	if _, made := errors.AsType[*httpmw.Error](err); made || errors.Is(err, httpmw.ErrKey) ||
		errors.Is(err, httpmw.ErrBody) {
		return e
	}
	for _, c := range refusals {
		if !errors.Is(err, c.err) {
			continue
		}
		e = &httpmw.Error{
			Status: c.status, Type: c.typ, Title: c.title, Detail: c.detail, Err: err,
		}
		if full, ok := errors.AsType[*repeat.QuotaError](err); ok {
			e.RetryAfter = full.RetryIn
		} else if c.again {
			e.RetryAfter = adapter.RetryIn(err, 0)
		}
		return e
	}
	if errors.Is(err, repeat.ErrLock) && e.Type == httpguard.TypeBusy {
		e.Status = http.StatusServiceUnavailable // it has waited, as for httpmw.Middleware
	}
	if errors.Is(err, repeat.ErrUnanswered) && e.Type == httpguard.TypeTimeout {
		e.Detail = "This request was cancelled, or its time ran out, while it was being carried " +
			"out. Some of it may have been done."
	}
	return e
}

// about tells requests with the same key apart. It has the path as the client
// sent it: the path in r.URL may have lost the difference, to http.StripPrefix
// for one. The host is part of it, and not of the caller, so that a request
// that is sent again by another host name is refused rather than carried out
// twice.
func about(r *http.Request, body []byte) []string {
	uri := r.RequestURI
	if uri == "" { // of a request that came from no server
		uri = r.URL.RequestURI()
	}
	kind, body := sameBoundary(r.Header.Get("Content-Type"), body)
	return []string{r.Method, strings.ToLower(r.Host), uri, kind, string(body)}
}

// boundary is that of all multipart bodies, when they are compared.
const boundary = "lockbeat-compares-forms-by-one-boundary"

// sameBoundary returns a content type and a body to compare in place of a request's own. A client
// that sends a form again may build it anew, and so make up another boundary. That is replaced by
// [boundary]: two forms that differ in nothing else are the same then. (To compare the parts that a
// parser finds was rejected: the handler's parser may find others. A multipart inside a part keeps
// its boundary: few clients send one.)
func sameBoundary(contentType string, body []byte) (string, []byte) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.HasPrefix(kind, "multipart/") || params["boundary"] == "" ||
		bytes.Contains(body, []byte(boundary)) {
		return contentType, body
	}
	delimiter := []byte("--" + params["boundary"])
	var same bytes.Buffer
	for line := range bytes.Lines(body) {
		rest, found := bytes.CutPrefix(line, delimiter)
		end := string(bytes.TrimSpace(rest))
		if found && (end == "" || end == "--") {
			same.WriteString("--" + boundary)
			line = rest
		}
		same.Write(line)
	}
	params["boundary"] = boundary
	if kind = mime.FormatMediaType(kind, params); kind == "" { // a parameter that can't be written
		return contentType, body
	}
	return kind, same.Bytes()
}
