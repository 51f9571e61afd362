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
// characters. Clients write it with and without the quotes of a structured field's string. Both are
// one key; within quotes it has neither quotes nor backslashes.
// Source: draft-ietf-httpapi-idempotency-key-header.
func Key(values []string) (string, error) {
	if len(values) == 0 {
		return "", ErrNoKey
	}
	if len(values) > 1 {
		return "", fmt.Errorf("%w: there are %d", ErrKey, len(values))
	}
	key := strings.Trim(values[0], " \t")
	if quoted, begins := strings.CutPrefix(key, `"`); begins {
		var ends bool
		if key, ends = strings.CutSuffix(quoted, `"`); !ends || strings.ContainsAny(key, `"\`) {
			return "", fmt.Errorf("%w: it begins with a quote, and is no quoted key", ErrKey)
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
