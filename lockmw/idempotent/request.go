package idempotent

import (
	"bytes"
	"mime"
	"net/http"
	"strings"
)

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
