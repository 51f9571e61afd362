package ticks

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// Record is what a store keeps of a job: its latest tick that was taken. Times are the store's.
type Record struct {
	// Version is 0 if there is no record.
	Version int `json:"version"`
	// Known is since when the store knows the job.
	Known time.Time `json:"known"`
	// Due is the tick, and Next the one after it; zero if there is none.
	Due  time.Time `json:"due,omitzero"`
	Next time.Time `json:"next,omitzero"`
	// Begun and Ended are those of its run. Ended is zero while it runs, and if its node died; a
	// run that was cut has ended, but its work is not done.
	Begun time.Time `json:"begun,omitzero"`
	Ended time.Time `json:"ended,omitzero"`
	// Attempt counts the runs of this tick, from 1 on.
	Attempt int     `json:"attempt,omitempty"`
	Outcome Outcome `json:"outcome,omitempty"`
	// Schedule is the [Fingerprint] of the one by which it was taken; "" if that is not known, as
	// in a record of a former version.
	Schedule string `json:"schedule,omitempty"`
	// Node and PID are who runs it, or ran it last.
	Node string `json:"node,omitempty"`
	PID  int    `json:"pid,omitempty"`
}

// Outcome is what has become of a run: no more than a class, since errors may have personal data.
type Outcome string

// The outcomes.
const (
	Running   Outcome = ""          // or its node has died
	Succeeded Outcome = "succeeded" // without an error
	Failed    Outcome = "failed"    // with an error
	Lost      Outcome = "lost"      // its lock was lost while it ran
	Panicked  Outcome = "panicked"  // it did not return
	Cut       Outcome = "cut"       // its work is not done, and may be taken over
)

const (
	version = 1
	maxNode = 64      // bytes, of a schedule's fingerprint too
	maxText = 4 << 10 // bytes of a record that is ours
	minKeep = 7 * 24 * time.Hour
)

// Holder is who ran the tick last.
func (r Record) Holder() renewer.Holder { return renewer.Holder{Node: r.Node, PID: r.PID} }

// Unended reports whether a run has begun and its work is not done: it is under way, or its node
// has died, or it was cut.
func (r Record) Unended() bool {
	return !r.Begun.IsZero() && (r.Ended.IsZero() || r.Outcome == Cut)
}

// Free is since when a node could have taken a tick: those due until then were taken, passed over
// while an earlier one ran, or came before the job was known.
func (r Record) Free() time.Time {
	return slices.MaxFunc([]time.Time{r.Known, r.Due, r.Ended}, time.Time.Compare)
}

// keep is how long the record is kept: a week, or four times the grace, or the time to the next
// tick.
func (r Record) keep(grace time.Duration) time.Duration {
	ttl := max(minKeep, 4*grace)
	if !r.Next.IsZero() {
		ttl = max(ttl, 4*r.Next.Sub(r.Free()))
	}
	return ttl.Truncate(time.Millisecond)
}

func (r Record) encode() string {
	r.Version = version
	text, _ := json.Marshal(r) // times of a schedule are in the years that JSON can have
	return string(text)
}

// decodeRecord reads a record, which any program that may write to the store may have written.
func decodeRecord(text string) (r Record, err error) {
	if len(text) > maxText || json.Unmarshal([]byte(text), &r) != nil || r.Version != version ||
		r.Known.IsZero() || r.Attempt < 0 || max(len(r.Node), len(r.Schedule)) > maxNode ||
		r.PID < 0 {
		return Record{}, fmt.Errorf("%w: the job's record is not of this package's making, or of "+
			"a version that this program does not know: delete it", renewer.ErrRejected)
	}
	return r, nil
}

// short cuts a node's name to what a record may have.
func short(node string) string {
	return strings.ToValidUTF8(node[:min(len(node), maxNode)], "")
}
