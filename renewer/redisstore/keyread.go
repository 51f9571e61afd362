package redisstore

import (
	"strings"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// readKey reads a key as leaseKey makes it, beside being "", or one that stands beside a lease:
// then beside is what follows the key of that. ok is false for any other key, as of another
// program.
func readKey(prefix, key string) (name contract.Name, beside string, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix+"{")
	if !ok {
		return name, "", false
	}
	escaped, beside, ok := strings.Cut(rest, "}")
	if !ok {
		return name, "", false
	}
	beside, name.Limit = strings.CutPrefix(beside, slotsSuffix)
	name.Text, ok = unescape(escaped)
	if !ok || name.Text == "" || len(name.Text) > store.MaxName ||
		beside != "" && beside[0] != ':' {
		return name, "", false
	}
	return name, beside, true
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
