package redisstore

import (
	"strings"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// nameOfKey is the opposite of leaseKey. ok is false for any key that leaseKey does not make: what
// stands beside a lease, and what another program has written.
func nameOfKey(prefix, key string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix+"{")
	if !ok {
		return "", false
	}
	escaped, limit := strings.CutSuffix(rest, "}"+slotsSuffix)
	if !limit {
		if escaped, ok = strings.CutSuffix(rest, "}"); !ok {
			return "", false
		}
	}
	plain, ok := unescape(escaped)
	if !ok || plain == "" || len(plain) > store.MaxName {
		return "", false
	}
	if limit {
		return store.LimitName(plain), true
	}
	return plain, !isLimit(plain) // leaseKey would take it for one
}

// unescape is the opposite of escape. ok is false for a text that escape does not make.
func unescape(text string) (name string, ok bool) {
	if clean(text) {
		return text, true
	}
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '%' {
			if mustEscape(c) {
				return "", false
			}
			b.WriteByte(c)
			continue
		}
		if i+2 >= len(text) {
			return "", false
		}
		high, low := hexDigit(text[i+1]), hexDigit(text[i+2])
		if high < 0 || low < 0 || !mustEscape(byte(high<<4|low)) {
			return "", false
		}
		b.WriteByte(byte(high<<4 | low))
		i += 2
	}
	return b.String(), true
}

// hexDigit is the value of a digit as escape writes it, -1 for any other byte.
func hexDigit(c byte) int {
	return strings.IndexByte(hexDigits, c)
}
