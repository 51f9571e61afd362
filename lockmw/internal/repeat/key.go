package repeat

import (
	"errors"
	"fmt"
	"strings"
)

// ErrKey means that a request has no usable Idempotency-Key.
var ErrKey = errors.New("lockbeat: unusable Idempotency-Key")

// ErrNoKey is the [ErrKey] of a request that has none at all.
var ErrNoKey = fmt.Errorf("%w: the request has none", ErrKey)

// mostKeyBytes bounds a key.
const mostKeyBytes = 255

// Key returns the key of a request in which it is given as values: 1 to 255 visible ASCII
// characters, with or without the quotes of a structured field's string. The error is [ErrKey].
// Source: draft-ietf-httpapi-idempotency-key-header.
func Key(values []string) (string, error) {
	switch len(values) {
	case 0:
		return "", ErrNoKey
	case 1:
		return parseKey(values[0])
	default:
		return "", fmt.Errorf("%w: there are %d", ErrKey, len(values))
	}
}

// parseKey reads a key. Clients write it with and without quotes.
// Both are one key, so the quotes are taken off.
func parseKey(text string) (string, error) {
	text = strings.Trim(text, " \t")
	key := text
	if strings.HasPrefix(text, `"`) {
		var ok bool
		if key, ok = unquote(text[1:]); !ok {
			return "", fmt.Errorf("%w: it begins with a quote, and is no string of RFC 9651",
				ErrKey)
		}
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

// unquote reads the rest of a string after its first quote, and reports whether it is whole.
func unquote(text string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"':
			return b.String(), i == len(text)-1
		case '\\':
			i++
			if i == len(text) || text[i] != '"' && text[i] != '\\' {
				return "", false
			}
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}
