package once

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
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
