package idempotent

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
)

// job is a request that is to be carried out once.
type job struct {
	caller string // hashed
	name   string // of the lock and the record
	input  string // what makes it this request and no other
	body   []byte
	size   int // of the answer, as it is stored
}

// fingerprint is what makes a request this one and no other. It goes by what the client has asked
// for: the path in r.URL may have lost what makes the difference, to http.StripPrefix for one. The
// host is in it, and not in the name, so that a request that is sent again by another host name is
// refused rather than carried out twice.
func fingerprint(r *http.Request, body []byte) string {
	uri := r.RequestURI
	if uri == "" { // of a request that came from no server
		uri = r.URL.RequestURI()
	}
	return hash(r.Method, strings.ToLower(r.Host), uri, r.Header.Get("Content-Type"), string(body))
}

// hash makes one text of several, whatever is in them.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(p), p) // a hash does not fail
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
