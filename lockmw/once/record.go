package once

import (
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// record is what is known of a piece of work. Its text is for people too
// (redis-cli --raw GET KEY): a line of version, state, attempts, the pid of the
// last and details, a line for that one's node, a line for the input, and the
// result.
type record struct {
	state    state
	attempts int
	last     store.Holder // who made the last attempt: node and pid
	details  details
	input    string
	result   string // encoded; of work that is bare: why; of an attempt that has failed: nothing
}

// state is how the work stands.
type state string

const (
	begun     state = "begun"     // an attempt runs, or has come to nothing: who has the lock knows
	done      state = "done"      // with a result
	bare      state = "bare"      // done, but the result could not be stored
	exhausted state = "exhausted" // as many attempts as may be have come to nothing
	givenUp   state = "given-up"
)

const (
	version = "once1"
	maxNode = 64      // bytes
	maxTold = 1 << 30 // attempts and pids: more is none of ours
)

var errForeign = errors.New("it is not of this package's making, or of a version that this " +
	"program does not know")

func (r record) encode() string {
	return fmt.Sprintf("%s %s %d %d%s\n%s\n%s\n%s", version, r.state, r.attempts,
		max(r.last.PID, 0), r.details.text(), line(r.last.Node, maxNode), r.input, r.result)
}

// decodeRecord reads a record. Any program that may write to the store may have
// written it, so all is checked but the result. An empty text is the record of
// work that has not begun.
func decodeRecord(text string) (r record, err error) {
	if text == "" {
		return record{}, nil
	}
	head, rest, _ := strings.Cut(text, "\n")
	node, rest, _ := strings.Cut(rest, "\n")
	input, result, whole := strings.Cut(rest, "\n")
	fields := strings.Split(head, " ")
	if !whole || len(fields) < 4 || fields[0] != version {
		return record{}, errForeign
	}
	attempts, err0 := strconv.ParseUint(fields[2], 10, 31)
	pid, err1 := strconv.ParseUint(fields[3], 10, 31)
	details, known := readDetails(fields[4:])
	r = record{
		state: state(fields[1]), attempts: int(attempts),
		last:    store.Holder{Node: node, PID: int(pid)},
		details: details, input: input, result: result,
	}
	switch r.state {
	case begun, done, bare, exhausted, givenUp:
	default:
		return record{}, errForeign
	}
	if !known || err0 != nil || err1 != nil ||
		attempts == 0 || attempts > maxTold || pid > maxTold ||
		line(node, maxNode) != node || len(input) > maxInput ||
		strings.ContainsFunc(input, isControl) {
		return record{}, errForeign
	}
	return r, nil
}

// line is a text as it may stand in a record and in a message: printable, at
// most so many bytes.
func line(s string, most int) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len()+utf8.RuneLen(r) > most {
			break
		}
		if unicode.IsPrint(r) && r != utf8.RuneError {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// details are what a record says of itself, behind the pid in its first line,
// by names. What is not so is left out, and a name that this program does not
// know is skipped: a later version may write more.
//
//	once1 begun 1 4711 kept=86400000 pause=1042
//	once1 done 2 4711 kept=86400000 type=billing.Invoice#3fa9c1
//
// No node's clock matters: the store says how long a record still lives, and so
// how old it is.
type details struct {
	kept  time.Duration // how long the record lived when it was written; 0: unknown
	pause time.Duration // how long from then on no attempt may begin
	typ   string        // the type of the result: see tagOf
}

// mostKept is the longest time that is told: some 31 years.
const mostKept = 999_999_999_999 * time.Millisecond

func (d details) text() string {
	if d.kept <= 0 || d.kept > mostKept {
		d.kept, d.pause = 0, 0
	}
	text := ""
	if d.kept > 0 {
		text += fmt.Sprintf(" kept=%d", d.kept.Milliseconds())
	}
	if d.pause > 0 {
		text += fmt.Sprintf(" pause=%d", d.pause.Milliseconds())
	}
	if d.typ != "" {
		text += " type=" + d.typ
	}
	return text
}

// readDetails reports whether the fields are such as text writes.
func readDetails(fields []string) (d details, ok bool) {
	for _, field := range fields {
		name, value, named := strings.Cut(field, "=")
		ok := named && name != "" && value != ""
		switch name {
		case "kept":
			d.kept, ok = readMillis(value)
		case "pause":
			d.pause, ok = readMillis(value)
		case "type":
			d.typ, ok = value, ok && isTag(value)
		}
		if !ok {
			return details{}, false
		}
	}
	if d.kept == 0 {
		d.pause = 0 // from when on is not known
	}
	return d, true
}

func readMillis(digits string) (time.Duration, bool) {
	ms, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || ms < 1 || ms > mostKept.Milliseconds() {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// rest is how long no attempt may begin yet, when the record still lives for
// left.
func (d details) rest(left time.Duration) time.Duration {
	if left <= 0 || left > d.kept { // the store can't tell, or it is another one's TTL
		return 0
	}
	return max(d.pause-(d.kept-left), 0)
}

// tagOf tells results of different types apart: the type's name, and behind it
// a hash of its package's path and its name, by which types are compared. A
// pointer counts as what it points to.
func tagOf[T any]() string {
	t := reflect.TypeFor[T]()
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	whole := t.String() // of a type without a name it names the packages of its parts
	if t.PkgPath() != "" {
		whole = t.PkgPath() + "." + t.Name()
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(whole))
	name := line(strings.ReplaceAll(t.String(), " ", ""), maxNode)
	return fmt.Sprintf("%s#%06x", name, h.Sum32()>>8)
}

// hashLen is that of the end of a tag, by which tags are compared.
const hashLen = len("#3fa9c1")

// isTag reports whether a text is what tagOf returns for some type, as far as
// can be told.
func isTag(s string) bool {
	return len(s) > hashLen && s[len(s)-hashLen] == '#' && line(s, maxNode+hashLen) == s
}

// otherType reports whether a result that has a tag is of another type than
// that of mine. A result may have none.
func otherType(tag, mine string) bool {
	return tag != "" && tag[len(tag)-hashLen:] != mine[len(mine)-hashLen:]
}
