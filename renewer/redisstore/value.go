package redisstore

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// The value of a lease is text, for people too (redis-cli --raw GET KEY): a line
// each for owner token, fencing token, the server's clock in us when the lock
// was taken, the holder's node, pid and operation, and the traceparent of its
// work if it is traced, and how many callers of the holder's process wait for
// the lock there, if that was told: see callers.lua. Lines added later go behind
// these, and programs that do not know them ignore them. The last line is "+"
// once others wait for the lock.
const (
	// separator is a control byte, which no part may have, so that none needs escaping.
	separator = "\n"
	// waitedFor ends the value of a lease that others wait for, see acquire.lua.
	waitedFor = separator + "+"
	// maxPart bounds each part of a holder, in bytes.
	maxPart = 64
	// maxCallers bounds how many waiting callers a value tells of.
	maxCallers = 999_999
	// maxValue bounds what is read of a value: ours have at most 269 bytes, acquire.lua sends
	// 300, and no other program should write here.
	maxValue = 4096
	// maxExact is the largest integer up to which the doubles of Lua are exact.
	maxExact = 1<<53 - 1
)

// encodeHolder writes the holder's part of a value without the trace, which differs
// each time. The script puts owner, fence and since before it, which it knows best.
func encodeHolder(h store.Holder) string {
	return part(h.Node) + separator + strconv.Itoa(max(h.PID, 0)) + separator + part(h.Operation)
}

// leaseValue is what the value of a lease says.
type leaseValue struct {
	owner        string
	fence, since int64 // since: us of the server's clock
	holder       store.Holder
	callers      int
	waitedFor    bool
}

// decodeValue reads who holds a lock and since when: see readLease.
func decodeValue(value string) (h store.Holder, since int64) {
	l, _ := readLease(value)
	return l.holder, l.since
}

// readLease reads the value of a lease. Any user of the server may have written it: of one that is
// not of our making nothing is believed, and no part is longer or less printable than what
// encodeHolder writes.
func readLease(value string) (l leaseValue, ok bool) {
	if len(value) > maxValue {
		return l, false
	}
	value, waited := strings.CutSuffix(value, waitedFor)
	owner, rest, _ := strings.Cut(value, separator)
	fence, rest, _ := strings.Cut(rest, separator)
	start, rest, ok := strings.Cut(rest, separator)
	l = leaseValue{owner: owner, fence: exact(fence), since: exact(start), waitedFor: waited}
	if !ok || len(owner) != store.OwnerLen || l.fence == 0 || l.since == 0 {
		return leaseValue{}, false
	}
	node, rest, _ := strings.Cut(rest, separator)
	pid, rest, _ := strings.Cut(rest, separator)
	operation, rest, _ := strings.Cut(rest, separator)
	trace, rest, _ := strings.Cut(rest, separator)
	callers, _, _ := strings.Cut(rest, separator)
	l.callers = int(min(exact(callers), maxCallers))
	l.holder = store.Holder{
		Node: part(node), PID: readPID(pid), Operation: part(operation), Trace: part(trace),
	}
	return l, true
}

// readPID reads the number of a process, 0 if it is none.
func readPID(text string) int {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil || n < 0 {
		return 0
	}
	return int(n)
}

// readTaker says, in the answer for a lease that is not its owner's any more, what has its key, or
// that it was broken.
func readTaker(a *store.Answer, value string) {
	if a.Broken = readBroken(value); a.Broken != nil {
		if !a.Broken.Force {
			a.Status = store.StatusBroken
		}
		return
	}
	if holder, since := decodeValue(value); since != 0 {
		a.Holder = &holder
	} else {
		a.Foreign = !strings.HasPrefix(value, "turn"+separator) // a waiter's, who may claim it
	}
}

// exact reads an integer from 1 to maxExact, or returns 0.
func exact(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > maxExact {
		return 0
	}
	return n
}

// part is s as it may stand in a value, in a log line and on a
// terminal: printable, at most maxPart bytes. The rest is dropped.
func part(s string) string {
	if plain(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if b.Len()+utf8.RuneLen(r) > maxPart {
			break
		}
		// A broken byte of UTF-8 arrives as RuneError, and goes as well.
		if unicode.IsPrint(r) && r != utf8.RuneError {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plain reports whether part would return s as it is, for the usual case of short ASCII.
func plain(s string) bool {
	if len(s) > maxPart {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e {
			return false
		}
	}
	return true
}
