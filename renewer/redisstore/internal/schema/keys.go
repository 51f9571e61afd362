// Package schema is what stands on the server, in text: what our keys and
// channels are called, and what the values there say. Programs of other
// versions read and write them beside us, and any user of the server may have
// written them, so that nothing is believed of what is not of our making.
//
// It owns those texts alone: it sends nothing, keeps nothing, and decides
// nothing. What a script answers is no value, and is read by who has called it.
package schema

import (
	"strconv"
	"strings"
	"unsafe"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// What follows the key of a lock, or of a limit, in the keys that stand beside
// it.
const (
	FenceSuffix = ":fence"
	LineSuffix  = ":waiters"
	markSuffix  = ":mark"
	// slotsSuffix and HoldersSuffix are those of a limit: see slots.lua.
	slotsSuffix   = ":slots"
	HoldersSuffix = ":holders"
	TasksSuffix   = ":tasks"
	HomesSuffix   = ":homes"
	NewestSuffix  = ":newest"
	BegunSuffix   = ":begun"
	processSuffix = ":process"
	// BrokenSuffix is before the owner token of a lease that is broken, in the
	// key of who broke it: see break.lua.
	BrokenSuffix = ":broken:"
)

// Pattern is what Redis calls the keys, or the channels, of all locks with a
// prefix. Up to the brace no key of another prefix is alike, even if one prefix
// begins with the other.
func Pattern(prefix string) string { return prefix + "{*" }

// LockKey returns PREFIX{name}. The braces are the only ones in it, so that
// they are the hash tag: all keys of a lock share a slot, and no name chooses
// which.
func LockKey(prefix, name string) string { return prefix + "{" + tagOf(name) + "}" }

// AppendLockKey writes LockKey.
func AppendLockKey(to []byte, prefix, name string) []byte {
	return append(append(append(append(to, prefix...), '{'), tagOf(name)...), '}')
}

// LeaseKey returns the LockKey of a lock, and PREFIX{name}:slots of a limit.
func LeaseKey(prefix string, name contract.Name) string {
	if name.Limit {
		return prefix + "{" + tagOf(name.Text) + "}" + slotsSuffix
	}
	return LockKey(prefix, name.Text)
}

// tagOf is a name as it stands in keys.
func tagOf(name string) string {
	if clean(name) {
		return name
	}
	return escape(name)
}

// KeyWriter writes the keys of leases one after another, in one allocation for
// all of those that need no escape, and in none if they are short.
type KeyWriter struct {
	prefix string
	holds  []store.Hold
	text   []byte
	room   [64]byte
}

// Begin begins with the first of these leases.
func (w *KeyWriter) Begin(prefix string, holds []store.Hold) {
	w.prefix, w.holds = prefix, holds
	size := 0
	for i := range holds {
		size += len(prefix) + len("{}") + len(holds[i].Name)
	}
	if w.text = w.room[:0]; size > len(w.room) {
		w.text = make([]byte, 0, size)
	}
}

// Next is the key of the next lease.
func (w *KeyWriter) Next() string {
	name := contract.Held(&w.holds[0])
	w.holds = w.holds[1:]
	if name.Limit || !clean(name.Text) {
		return LeaseKey(w.prefix, name)
	}
	from := len(w.text)
	w.text = AppendLockKey(w.text, w.prefix, name.Text)
	return Text(w.text[from:])
}

// Text is what was written, which is not written any more, without a copy.
func Text(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b)) //nolint:gosec // as it says
}

// NoName is no lock's name in a key: a percent sign of a name would be escaped.
const NoName = "%"

// UnusedKey is a key that nobody writes.
func UnusedKey(prefix string) string { return prefix + "{" + NoName + "}:none" }

// MarkKey is where the highest fencing token granted is kept: of a slot, by a
// hash tag in it, or of a single server.
func MarkKey(prefix, tag string) string { return prefix + "{" + tag + "}" + markSuffix }

// SlotOf returns the slot of all keys of a lock, and of its channel: their hash
// tag is what their braces enclose.
func SlotOf(name string) uint16 { return topology.Slot(tagOf(name)) }

// KeySize is how many bytes LeaseKey has.
func KeySize(prefix string, name contract.Name) int {
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

// mustEscape: control bytes, which garble logs and terminals; braces, which
// would end the hash tag; and the escape itself, so that no two names share a
// key.
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

// ReadKey reads a key as LeaseKey makes it, beside being "", or one that stands
// beside a lease: then beside is what follows the key of that. ok is false for
// any other key, as of another program.
func ReadKey(prefix, key string) (name contract.Name, beside string, ok bool) {
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

// unescape is the opposite of escape. ok is false for a text that escape does
// not make.
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

// ProcessName names a process among the names of locks, so that it has a slot
// of a cluster.
func ProcessName(h store.Holder) string { return Part(h.Node) + " " + strconv.Itoa(h.PID) }

// ProcessChannel is where all processes of one node and number hear of their
// leases.
func ProcessChannel(prefix string, h store.Holder) string {
	return LockKey(prefix, ProcessName(h)) + processSuffix
}

// FaceKey is where a process says who waits in it, by the inbox of its places.
func FaceKey(prefix, inbox string) string { return prefix + "{" + inbox + "}" + processSuffix }
