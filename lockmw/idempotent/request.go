package idempotent

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw"
)

// job is a request that is to be carried out once.
type job struct {
	caller string // hashed
	name   string // of the lock and the record: scope, caller and key, hashed
	input  string // the request's fingerprint
	body   []byte
	size   int // of the answer, as it is stored
}

// newJob returns the job that a request asks for. Stored answers are found by it: an older release
// must compute the same.
func newJob(scope, caller, key string, r *http.Request, body []byte) *job {
	return &job{
		caller: hash(caller), name: lockmw.Key("idempotency", hash(scope, caller, key)),
		input: fingerprint(r, body), body: body,
	}
}

// about is what a sealed answer is bound to.
func (j *job) about() []byte { return []byte(hash(j.name, j.input)) }

// fingerprint tells requests with the same key apart. It takes the path as the client sent it: the
// path in r.URL may have lost the difference, to http.StripPrefix for one. The host is part of the
// fingerprint, and not of the name, so that a request that is sent again by another host name is
// refused rather than carried out twice.
func fingerprint(r *http.Request, body []byte) string {
	uri := r.RequestURI
	if uri == "" { // of a request that came from no server
		uri = r.URL.RequestURI()
	}
	return hash(r.Method, strings.ToLower(r.Host), uri, r.Header.Get("Content-Type"), string(body))
}

// hash returns one text for several. Other parts make another hash, whatever bytes they have.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(p), p) // a hash does not fail
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
