package once

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// note is what a record says beside what its first version had room for. It stands behind the
// node's name, and in the same line, since programs of that version read nothing else that
// they would let pass: to them it is a part of the name. They write none.
//
//	web-1 kept=86400000 pause=1042
//	web-1 kept=86400000 type=billing.Invoice#3fa9c1
//
// No node's clock matters: the store says how long a record still lives, and so how old it is.
type note struct {
	kept  time.Duration // how long the record lived when it was written; 0: unknown
	pause time.Duration // how long from then on no attempt may begin
	typ   string        // the type of the result: see tagOf
}

var noted = regexp.MustCompile(`^(.*) kept=([1-9]\d{0,11})` +
	`(?: pause=([1-9]\d{0,11}))?(?: type=(.*#[0-9a-f]{6}))?$`)

// mostKept is what the digits of a note have room for.
const mostKept = 999_999_999_999 * time.Millisecond

// readNote parts a node's name from the note behind it.
func readNote(node string) (name string, n note) {
	m := noted.FindStringSubmatch(node)
	if m == nil {
		return node, note{}
	}
	millis := func(digits string) time.Duration {
		ms, _ := strconv.ParseInt(digits, 10, 64)
		return time.Duration(ms) * time.Millisecond
	}
	return m[1], note{kept: millis(m[2]), pause: millis(m[3]), typ: m[4]}
}

// after is a node's name with the note behind it. Of what has no room, the name of the type is cut
// first, and then that of the node.
func (n note) after(node string) string {
	if n.kept <= 0 || n.kept > mostKept {
		return line(node, maxNode)
	}
	text := fmt.Sprintf(" kept=%d", n.kept.Milliseconds())
	if n.pause > 0 {
		text += fmt.Sprintf(" pause=%d", n.pause.Milliseconds())
	}
	if n.typ != "" {
		text += " type="
		room := maxNode - len(text)
		text += cutTag(n.typ, max(room-len(line(node, maxNode)), 0))
	}
	return line(node, maxNode-len(text)) + text
}

// rest is how long no attempt may begin yet, when the record still lives for left.
func (n note) rest(left time.Duration) time.Duration {
	if left <= 0 || left > n.kept { // the store can't tell, or it is another one's TTL
		return 0
	}
	return max(n.pause-(n.kept-left), 0)
}
