package schema

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// The value of a lease is text, for people too (redis-cli --raw GET KEY): a
// line each for owner token, fencing token, the server's clock in us when the
// lock was taken, the holder's node, pid and operation, and the traceparent of
// its work if it is traced, and how many callers of the holder's process wait
// for the lock there, if that was told: see callers.lua. Lines added later go
// behind these, and programs that do not know them ignore them. The last line
// is "+" once others wait for the lock.
const (
	// Separator is a control byte, which no part may have, so that none needs
	// escaping.
	Separator = "\n"
	// waitedFor ends the value of a lease that others wait for, see
	// acquire.lua.
	waitedFor = Separator + "+"
	// MaxPart bounds each part of a holder, in bytes.
	MaxPart = 64
	// MaxCallers bounds how many waiting callers a value tells of.
	MaxCallers = 999_999
	// maxValue bounds what is read of a value: ours have at most 269 bytes,
	// acquire.lua sends 300, and no other program should write here.
	maxValue = 4096
	// MaxExact is the largest integer up to which the doubles of Lua are exact.
	MaxExact = 1<<53 - 1
)

// EncodeHolder writes the holder's part of a value without the trace, which
// differs each time. The script puts owner, fence and since before it, which it
// knows best.
func EncodeHolder(h store.Holder) string {
	return Part(h.Node) + Separator + strconv.Itoa(max(h.PID, 0)) + Separator + Part(h.Operation)
}

// AppendYoung writes the value of a lease that was claimed natively. Its
// fencing token is "0" until the owner's first heartbeat.
func AppendYoung(to []byte, owner string, since int64, holder string) []byte {
	to = append(append(to, owner...), Separator+"0"+Separator...)
	to = append(strconv.AppendInt(to, since, 10), Separator...)
	return append(to, holder...)
}

// LeaseValue is what the value of a lease says.
type LeaseValue struct {
	Fence, Since int64 // Fence: 0 if it is young; Since: us of the server's clock
	Holder       store.Holder
	Callers      int
	WaitedFor    bool
}

// DecodeValue reads who holds a lock and since when: see ReadLease.
func DecodeValue(value string) (h store.Holder, since int64) {
	l, _ := ReadLease(value)
	return l.Holder, l.Since
}

// ReadLease reads the value of a lease. Any user of the server may have written
// it: of one that is not of our making nothing is believed, and no part is
// longer or less printable than what EncodeHolder writes.
func ReadLease(value string) (l LeaseValue, ok bool) {
	if len(value) > maxValue {
		return l, false
	}
	value, waited := strings.CutSuffix(value, waitedFor)
	owner, rest, _ := strings.Cut(value, Separator)
	fence, rest, _ := strings.Cut(rest, Separator)
	start, rest, ok := strings.Cut(rest, Separator)
	l = LeaseValue{Fence: Exact(fence), Since: Exact(start), WaitedFor: waited}
	if !ok || len(owner) != store.OwnerLen || l.Fence == 0 && fence != "0" || l.Since == 0 {
		return LeaseValue{}, false
	}
	node, rest, _ := strings.Cut(rest, Separator)
	pid, rest, _ := strings.Cut(rest, Separator)
	operation, rest, _ := strings.Cut(rest, Separator)
	trace, rest, _ := strings.Cut(rest, Separator)
	callers, _, _ := strings.Cut(rest, Separator)
	l.Callers = int(min(Exact(callers), MaxCallers))
	l.Holder = store.Holder{
		Node: Part(node), PID: ReadPID(pid), Operation: Part(operation), Trace: Part(trace),
	}
	return l, true
}

// ReadPID reads the number of a process, 0 if it is none.
func ReadPID(text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int(n)
}

// Exact reads an integer from 1 to MaxExact, or returns 0.
func Exact(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > MaxExact {
		return 0
	}
	return n
}

// Part is s as it may stand in a value, in a log line and on a
// terminal: printable, at most maxPart bytes. The rest is dropped.
func Part(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if b.Len()+utf8.RuneLen(r) > MaxPart {
			break
		}
		// A broken byte of UTF-8 arrives as RuneError, and goes as well.
		if unicode.IsPrint(r) && r != utf8.RuneError {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plain reports whether part would return s as it is, for the usual case of
// short ASCII.
func plain(s string) bool {
	if len(s) > MaxPart {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}

// How a lease was broken, as lost.lua tells. No owner token has a line that
// short.
const (
	howBroken   = "broken"
	howForced   = "forced"
	howReplaced = "replaced"
)

// BrokenMark is the first byte of the owner token of a lease that is broken, in
// place of its own.
const BrokenMark = "!"

// BrokenText is what is kept of who broke a lease.
func BrokenText(b store.Broken) string {
	how := howBroken
	switch {
	case b.Force:
		how = howForced
	case b.Replaced:
		how = howReplaced
	}
	return how + Separator + Part(b.By) + Separator + Part(b.Why)
}

// ReadBroken is the opposite of BrokenText; nil for any other text.
func ReadBroken(text string) *store.Broken {
	how, rest, _ := strings.Cut(text, Separator)
	by, why, ok := strings.Cut(rest, Separator)
	if !ok || how != howBroken && how != howForced && how != howReplaced {
		return nil
	}
	why, _, _ = strings.Cut(why, Separator)
	return &store.Broken{
		By: Part(by), Why: Part(why), Force: how == howForced, Replaced: how == howReplaced,
	}
}

// IsTold reports whether told.lua has noted that the lease's owner knows.
func IsTold(text string) bool {
	lines := strings.Split(text, Separator)
	return len(lines) == 4 && lines[3] == "told"
}

// Decimal is a number as scripts take it.
func Decimal(n int64) string { return strconv.FormatInt(n, 10) }

// Millis converts a remaining time to live. A key in its last
// millisecond has PTTL 0, which is not "unknown".
func Millis(n int64) time.Duration {
	switch {
	case n < 0, n > math.MaxInt64/int64(time.Millisecond):
		return 0
	case n == 0:
		return time.Millisecond
	default:
		return time.Duration(n) * time.Millisecond
	}
}

// Elapsed is the time between two instants of the server's clock in us, 0 if
// one can't be.
func Elapsed(since, now int64) time.Duration {
	if since <= 0 || now <= since || now > MaxExact {
		return 0
	}
	return time.Duration(now-since) * time.Microsecond // at most 2^53 us: no overflow
}
