package once

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
