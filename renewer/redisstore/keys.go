package redisstore

import (
	"strings"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	fenceSuffix = ":fence"
	lineSuffix  = ":waiters"
	markSuffix  = ":mark"
	// slotsSuffix and holdersSuffix are those of a limit: see slots.lua.
	slotsSuffix   = ":slots"
	holdersSuffix = ":holders"
)

// pattern is what Redis calls the keys, or the channels, of all locks with a prefix. Up to the
// brace no key of another prefix is alike, even if one prefix begins with the other.
func pattern(prefix string) string { return prefix + "{*" }

// lockKey returns PREFIX{name}. The braces are the only ones in it, so that they are the hash tag:
// all keys of a lock share a slot, and no name chooses which.
func lockKey(prefix, name string) string { return prefix + "{" + tagOf(name) + "}" }

// leaseKey returns the lockKey of a lock, and PREFIX{name}:slots of a limit.
func leaseKey(prefix string, name contract.Name) string {
	if name.Limit {
		return prefix + "{" + tagOf(name.Text) + "}" + slotsSuffix
	}
	return lockKey(prefix, name.Text)
}

// tagOf is a name as it stands in keys.
func tagOf(name string) string {
	if clean(name) {
		return name
	}
	return escape(name)
}

// keyWriter writes the keys of leases one after another, in one allocation for all of those that
// need no escape.
type keyWriter struct {
	prefix string
	holds  []store.Hold
	text   strings.Builder
}

func (w *keyWriter) begin(prefix string, holds []store.Hold) {
	w.prefix, w.holds = prefix, holds
	size := 0
	for i := range holds {
		size += len(prefix) + len("{}") + len(holds[i].Name)
	}
	w.text.Grow(size)
}

// next is the key of the next lease.
func (w *keyWriter) next() string {
	name := contract.Held(&w.holds[0])
	w.holds = w.holds[1:]
	if name.Limit || !clean(name.Text) {
		return leaseKey(w.prefix, name)
	}
	from := w.text.Len()
	w.text.WriteString(w.prefix)
	w.text.WriteByte('{')
	w.text.WriteString(name.Text)
	w.text.WriteByte('}')
	return w.text.String()[from:]
}

// noKey is a key that nobody writes.
func noKey(prefix string) string { return prefix + "{%}:none" }

// markKey is where the highest fencing token granted is kept: of a slot, by a hash tag in it, or of
// a single server.
func markKey(prefix, tag string) string { return prefix + "{" + tag + "}" + markSuffix }

// slotOf returns the slot of all keys of a lock, and of its channel: their hash tag is what their
// braces enclose.
func slotOf(name string) uint16 { return topology.Slot(tagOf(name)) }

// keySize is how many bytes leaseKey has.
func keySize(prefix string, name contract.Name) int {
	size := len(prefix) + len("{}") + len(name.Text)
	if name.Limit {
		size += len(slotsSuffix)
	}
	for i := range len(name.Text) {
		if mustEscape(name.Text[i]) {
			size += len("%XX") - 1
		}
	}
	return size
}

// clean reports whether a name can stand in a key as it is.
func clean(name string) bool {
	for i := range len(name) {
		if mustEscape(name[i]) {
			return false
		}
	}
	return true
}

// mustEscape: control bytes, which garble logs and terminals; braces, which would
// end the hash tag; and the escape itself, so that no two names share a key.
func mustEscape(c byte) bool {
	return c < 0x20 || c == 0x7f || c == '{' || c == '}' || c == '%'
}

const hexDigits = "0123456789ABCDEF"

// escape writes such bytes as %XX, as URLs do.
func escape(name string) string {
	var b strings.Builder
	b.Grow(len(name) + 8)
	for i := range len(name) {
		c := name[i]
		if mustEscape(c) {
			b.WriteByte('%')
			b.WriteByte(hexDigits[c>>4])
			b.WriteByte(hexDigits[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

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
