package redisstore

import (
	"strings"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
)

const (
	fenceSuffix = ":fence"
	aheadSuffix = ":ahead"
	freedSuffix = ":freed"
	lineSuffix  = ":waiters"
	markSuffix  = ":mark"
)

// pattern is what Redis calls the keys, or the channels, of all locks with a prefix. Up to the
// brace no key of another prefix is alike, even if one prefix begins with the other.
func pattern(prefix string) string { return prefix + "{*" }

// leaseKey returns PREFIX{name}. The braces are the only ones in it, so that they
// are the hash tag: all keys of a lock share a slot, and no name chooses which.
func leaseKey(prefix, name string) string {
	if clean(name) {
		return prefix + "{" + name + "}"
	}
	return prefix + "{" + escape(name) + "}"
}

// freedChannel is where those who wait for a lock without a place hear that it is free.
func freedChannel(prefix, name string) string { return leaseKey(prefix, name) + freedSuffix }

// leaseKeys writes the keys of many leases, in one allocation for all of those that need no escape.
func leaseKeys(keys []string, prefix string, holds []renewer.Hold) {
	size := 0
	for i := range holds {
		size += len(prefix) + len(holds[i].Name) + 2
	}
	var b strings.Builder
	b.Grow(size)
	for i := range holds {
		if !clean(holds[i].Name) {
			keys[i] = leaseKey(prefix, holds[i].Name)
			continue
		}
		from := b.Len()
		b.WriteString(prefix)
		b.WriteByte('{')
		b.WriteString(holds[i].Name)
		b.WriteByte('}')
		keys[i] = b.String()[from:]
	}
}

// markKey is where the highest fencing token granted is kept: of a slot, by a hash tag in it, or of
// a single server.
func markKey(prefix, tag string) string { return prefix + "{" + tag + "}" + markSuffix }

// slotOf returns the slot of all keys of a lock, and of its channel: their hash tag is what their
// braces enclose.
func slotOf(name string) uint16 {
	if !clean(name) {
		name = escape(name)
	}
	return topology.Slot(name)
}

// keySize is how many bytes leaseKey has.
func keySize(prefix, name string) int {
	size := len(prefix) + len("{}") + len(name)
	for i := range len(name) {
		if mustEscape(name[i]) {
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

// escape writes such bytes as %XX, as URLs do.
func escape(name string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	b.Grow(len(name) + 8)
	for i := range len(name) {
		c := name[i]
		if mustEscape(c) {
			b.WriteByte('%')
			b.WriteByte(hex[c>>4])
			b.WriteByte(hex[c&15])
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
