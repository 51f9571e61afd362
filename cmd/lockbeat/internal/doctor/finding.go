package doctor

import (
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

// report collects findings, and tells each at once: the next may be long in coming.
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

// missed makes the finding of something that could not be looked at: for want of a right, or since
// the server does not answer.
func missed(check, right string, err error) finding {
	if answer, isAnswer := rueidis.IsRedisErr(err); isAnswer {
		if isDenied(answer.Error()) {
			return finding{
				Check: check, Status: unknown, Found: "you have no right to look",
				Change: "to see it, grant " + right,
			}
		}
		return finding{Check: check, Status: unknown, Found: "the server says: " + answer.Error()}
	}
	return finding{
		Check: check, Status: failure, silent: true, Found: "no answer: " + err.Error(),
		Change: "see that the server runs, and that nothing on the way drops connections",
	}
}
