package idempotent

import (
	"net/http"
	"strings"
)

// about tells requests with the same key apart. It has the path as the client sent it: the path in
// r.URL may have lost the difference, to http.StripPrefix for one. The host is part of it, and not
// of the caller, so that a request that is sent again by another host name is refused rather than
// carried out twice.
func about(r *http.Request, body []byte) []string {
	uri := r.RequestURI
	if uri == "" { // of a request that came from no server
		uri = r.URL.RequestURI()
	}
	return []string{
		r.Method, strings.ToLower(r.Host), uri, r.Header.Get("Content-Type"), string(body),
	}
}
