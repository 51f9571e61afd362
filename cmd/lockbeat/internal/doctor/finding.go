package doctor

import (
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/exit"
)

// Status is how well something is. They are in the order of how bad they are.
type status int

const (
	ok status = iota
	unknown
	warning
	failure
)

// String is the status as it is printed.
func (s status) String() string { return [...]string{"OK", "unknown", "WARN", "FAIL"}[s] }

// MarshalText is the status in JSON.
func (s status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// exitStatus is how the program ends if nothing is worse.
func (s status) exitStatus() int {
	return [...]int{exit.OK, exit.Unknown, exit.Warning, exit.Failure}[s]
}

// finding is one line of the report.
type finding struct {
	Check  string `json:"check"`
	Server string `json:"server,omitempty"` // which of several
	Status status `json:"status"`
	Found  string `json:"found"`
	Change string `json:"change,omitempty"`
	silent bool   // there was no answer, nor will there be one to the next question
}

// report collects findings, and tells each at once: the next may be long in
// coming.
type report struct {
	tell     func(finding)
	findings []finding
}

func (r *report) add(f finding) {
	r.findings = append(r.findings, f)
	r.tell(f)
}

func (r *report) worst() (worst status) {
	for _, f := range r.findings {
		worst = max(worst, f.Status)
	}
	return worst
}

// missed makes the finding of something that could not be looked at: for want
// of a right, or since the server does not answer.
func missed(check, right string, err error) finding {
	if answer, isAnswer := rueidis.IsRedisErr(err); isAnswer {
		f := finding{Check: check, Status: unknown, Found: "the server says: " + answer.Error()}
		switch {
		case isDenied(answer.Error()):
			f.Found, f.Change = "you have no right to look", "to see it, grant "+right
		case isBusy(answer.Error()):
			f.Status, f.silent, f.Change = failure, true, endScript(answer.Error())
		}
		return f
	}
	return finding{
		Check: check, Status: failure, silent: true, Found: "no answer: " + err.Error(),
		Change: "see that the server runs, and that nothing on the way drops connections",
	}
}

// isBusy reports whether a server says that it does nothing but run a script.
func isBusy(text string) bool { return strings.Contains(text, "is busy running a script") }

// endScript is what to do about that. The server itself tells nobody which
// script it is.
func endScript(text string) string {
	end := "SCRIPT KILL"
	if strings.Contains(text, "FUNCTION KILL") {
		end = "FUNCTION KILL"
	}
	return "a script runs for longer than busy-reply-threshold, and all else waits: the server's " +
		"log has its name (Slow script detected); `redis-cli " + end + "` ends it, unless it has " +
		"written"
}
