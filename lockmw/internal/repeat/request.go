package repeat

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw"
)

// Request is a request that is to be carried out once.
type Request struct {
	caller string   // hashed
	name   string   // of the lock and the record: scope, caller and key, hashed
	input  string   // the request's fingerprint
	parts  []string // names, in the order of the note
	note   string   // on record beside the fingerprint, for differs
	size   int      // of the answer, as it is stored
}

// Part is one of those things in which requests with the same key may differ.
type Part struct{ Name, Value string }

// Request returns the request that a caller sends with a key. about tells requests with the same
// key apart. Stored answers are found by it: an older release must compute the same. parts say the
// same, so that the operator can be told what differs.
func (g *Guard) Request(caller, key string, about []string, parts []Part) *Request {
	r := &Request{
		caller: hash(caller), name: lockmw.Key("idempotency", hash(g.Scope, caller, key)),
		input: hash(about...),
	}
	for _, p := range parts { // not kept, since the body is one of them
		r.parts = append(r.parts, p.Name)
		r.note += hash(r.name, p.Name, p.Value)[:notedBytes]
	}
	return r
}

// notedBytes is how many characters the note has of each part: 18 bits of a hash. That is enough to
// say that a part differs, and too little to prove a guess of what it was.
const notedBytes = 3

// differs names the parts that the request on record with this note has otherwise. An older release
// has left no note, and another program may have left any.
func (r *Request) differs(noted string) string {
	if len(noted) != len(r.note) {
		return "what is not on record"
	}
	var names []string
	for i, name := range r.parts {
		if at := i * notedBytes; noted[at:at+notedBytes] != r.note[at:at+notedBytes] {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// bound is what a sealed answer is bound to.
func (r *Request) bound() []byte { return []byte(hash(r.name, r.input)) }

// hash returns one text for several. Other parts make another hash, whatever bytes they have.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = fmt.Fprintf(h, "%d:%s,", len(p), p) // a hash does not fail
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
