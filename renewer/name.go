package renewer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// reservedPrefix begins the names under which stores keep notes of their own,
// such as the membership of a quorum. No caller can lock one: a name is often
// chosen by a remote client. A store gives them to its nodes directly.
const reservedPrefix = "\x00lockbeat"

// CheckName returns an error that is [ErrName] if name is empty, longer than
// [store.MaxName], or begins with "\x00lockbeat". Any other bytes will do.
func CheckName(name string) error {
	if fault := nameFault(name); fault != nil {
		return fmt.Errorf("%w: %w", ErrName, fault)
	}
	return nil
}

func nameFault(name string) error {
	switch {
	case name == "":
		return errors.New("it is empty, or made of an empty part; name what the lock protects, " +
			"such as \"order:42\"")
	case len(name) > store.MaxName:
		return fmt.Errorf("it has %d bytes, above the limit of %d; hash what makes it long",
			len(name), store.MaxName)
	case strings.HasPrefix(name, reservedPrefix):
		return fmt.Errorf("it begins with %q, which stores keep for themselves; begin names with "+
			"a prefix of your own, such as \"order:\"",
			reservedPrefix)
	default:
		return nil
	}
}

// Names of locks may carry personal data: a customer's number, an e-mail
// address. Errors name the lock to the program. Logs and spans show a hash of
// the name, and texts of errors without it.

// hashBytes is how much of the hash is shown: two of a billion names share one
// with a chance of 3 %.
const hashBytes = 8

// HashName returns what logs and spans show in place of a lock's name: the
// first 64 bits of its SHA-256, as 16 hexadecimal digits:
//
//	printf %s account:42 | sha256sum | cut -c1-16
//
// Names that can be listed can be found out so, but for a secret, shared by all
// processes: then it is an HMAC-SHA256.
func HashName(name string, secret []byte) string {
	if len(secret) == 0 {
		sum := sha256.Sum256([]byte(name))
		return hex.EncodeToString(sum[:hashBytes])
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(name)) // never fails: see hash.Hash
	return hex.EncodeToString(mac.Sum(nil)[:hashBytes])
}

// ErrorText returns the text of an error without the names of locks, for logs;
// "" for nil. It knows errors of this package, also in a chain, and those with
// a method Nameless() string, which returns that text.
func ErrorText(err error) string {
	switch e := err.(type) { //nolint:errorlint // the errors below are looked at one by one
	case nil:
		return ""
	case interface{ nameless() string }: // of this package
		return e.nameless()
	case interface{ Nameless() string }:
		return e.Nameless()
	}
	text := err.Error()
	for _, below := range unwrapped(err) {
		whole, nameless := below.Error(), ErrorText(below)
		switch {
		case whole == nameless:
		case strings.Contains(text, whole):
			text = strings.ReplaceAll(text, whole, nameless)
		default: // it may be in there in other words
			return nameless
		}
	}
	return text
}

// unwrapped are the errors right below one.
func unwrapped(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if below := errors.Unwrap(err); below != nil {
		return []error{below}
	}
	return nil
}
