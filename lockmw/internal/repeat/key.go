package repeat

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw"
)

// ErrKey means that a request has no usable Idempotency-Key.
var ErrKey = errors.New("lockbeat: unusable Idempotency-Key")

// ErrNoKey is the [ErrKey] of a request that has none at all.
var ErrNoKey = fmt.Errorf("%w: the request has none", ErrKey)

// mostKeyBytes bounds a key.
const mostKeyBytes = 255

// The grammar of structured fields. Source: RFC 8941, 3.1.2 and 3.3.
const (
	escaped = `|\\["\\])*`
	// visible is what is within the quotes of a key: a string without spaces.
	visible = `(?:[^\x00-\x20"\\\x7f-\x{10FFFF}]` + escaped
	text    = `"(?:[^\x00-\x1f"\\\x7f-\x{10FFFF}]` + escaped + `"`
	number  = `-?[0-9]{1,12}(?:[0-9]{0,3}|\.[0-9]{1,3})`
	token   = `[A-Za-z*][!#$%&'*+.^_|~0-9A-Za-z:/\x60-]*`
	item    = text + `|` + number + `|` + token + `|:[A-Za-z0-9+/=]*:|\?[01]`
	// parameter means nothing here.
	parameter = `; *[a-z*][a-z0-9_.*-]*(?:=(?:` + item + `))?`
)

var quoted = regexp.MustCompile(`^"(` + visible + `)"(?:` + parameter + `)*$`)

var unescaper = strings.NewReplacer(`\"`, `"`, `\\`, `\`)

// Key returns the key of a request in which it is given as values: 1 to 255
// visible ASCII characters. Clients write it with and without the quotes of a
// structured field's string, in which a backslash stands before quotes and
// backslashes. Both are one key. Source:
// draft-ietf-httpapi-idempotency-key-header.
func Key(values []string) (string, error) {
	if len(values) == 0 {
		return "", ErrNoKey
	}
	if len(values) > 1 {
		return "", fmt.Errorf("%w: there are %d", ErrKey, len(values))
	}
	key := strings.Trim(values[0], " \t")
	if strings.HasPrefix(key, `"`) {
		parts := quoted.FindStringSubmatch(key)
		if parts == nil {
			return "", fmt.Errorf("%w: it begins with a quote, and is no quoted key", ErrKey)
		}
		key = unescaper.Replace(parts[1])
	}
	switch {
	case key == "":
		return "", fmt.Errorf("%w: it is empty", ErrKey)
	case len(key) > mostKeyBytes:
		return "", fmt.Errorf("%w: it has %d bytes; at most %d are taken", ErrKey,
			len(key), mostKeyBytes)
	case strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c >= 0x7f }):
		return "", fmt.Errorf("%w: it has other characters than visible ASCII", ErrKey)
	}
	return key, nil
}

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
