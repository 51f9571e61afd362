package repeat

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
)

// Request is a request that is to be carried out once.
type Request struct {
	caller string // hashed
	name   string // of the lock and the record: scope, caller and key, hashed
	input  string // the request's fingerprint
	size   int    // of the answer, as it is stored
}

// Request returns the request that a caller sends with a key. about tells
// requests with the same key apart.
func (g *Guard) Request(caller, key string, about ...string) *Request {
	return &Request{
		caller: hash(caller), name: lockmw.Key("idempotency", hash(g.Scope, caller, key)),
		input: hash(about...),
	}
}

// bound is what a sealed answer is bound to.
func (r *Request) bound() []byte { return []byte(hash(r.name, r.input)) }

// hash returns one text for several. Other parts make another hash, whatever
// bytes they have.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(p), p) // a hash does not fail
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
