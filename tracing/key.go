package tracing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"

	"go.opentelemetry.io/otel/attribute"

	"github.com/lockbeat/lockbeat/renewer"
)

// KeyMode says how spans show which lock they are about. Metrics never show it.
type KeyMode uint8

const (
	// KeyModeOff leaves the lock's name out. It is the default.
	KeyModeOff KeyMode = iota
	// KeyModeHashed shows a hash of the name, by which the spans about one lock are
	// found: the first 64 bits of its SHA-256 in hexadecimal. The name can't be read, but
	// it can be guessed: an attacker who can list the possible names, such as all
	// customers' numbers, can hash them too. [WithKeySecret] prevents that.
	KeyModeHashed
	// KeyModePlain shows the name, and the texts of errors, which may have it in them.
	KeyModePlain
)

// hashBytes is how much of the hash is shown: two of a billion names
// share one with a chance of 3 %.
const hashBytes = 8

// key is the attribute for a lock's name; ok is false if there is none.
func (s *settings) key(name string) (kv attribute.KeyValue, ok bool) {
	switch s.keyMode {
	case KeyModeHashed:
		return attribute.String(keyNameHash, s.hash(name)), true
	case KeyModePlain:
		return attribute.String(keyName, printable(name, renewer.MaxName)), true
	default:
		return attribute.KeyValue{}, false
	}
}

// hash is keyed by the secret if there is one.
func (s *settings) hash(name string) string {
	if s.keySecret == nil {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:hashBytes])
	}
	mac := hmac.New(sha256.New, s.keySecret)
	mac.Write([]byte(name)) // never fails: see hash.Hash
	return hex.EncodeToString(mac.Sum(nil)[:hashBytes])
}
