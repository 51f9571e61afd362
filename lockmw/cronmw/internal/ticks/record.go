package ticks

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Record is what a store keeps of a job: its latest tick that was taken. Times
// are the store's.
type Record struct {
	Version int `json:"version"`
	// Due is the tick; zero if there is no record. Next is the one after it by
	// the schedule that it was taken by; zero if there is none.
	Due  time.Time `json:"due"`
	Next time.Time `json:"next,omitzero"`
	// Ended is when its run ended; zero while it runs, and if its node died.
	Ended time.Time `json:"ended,omitzero"`
	// Cut means that the run has ended before its work was done, which may be
	// taken over.
	Cut bool `json:"cut,omitempty"`
	// Done is when a run last succeeded; zero if none has. DueBy is by when the
	// next one has to.
	Done  time.Time `json:"done,omitzero"`
	DueBy time.Time `json:"due_by,omitzero"`
	// Attempt counts the runs of this tick, from 1 on.
	Attempt int `json:"attempt"`
	// Node and PID are who runs it, or ran it last.
	Node string `json:"node,omitempty"`
	PID  int    `json:"pid,omitempty"`
}

const (
	version = 2
	maxNode = 64      // bytes
	maxText = 4 << 10 // bytes of a record that is ours
)

// Holder is who ran the tick last.
func (r Record) Holder() store.Holder { return store.Holder{Node: r.Node, PID: r.PID} }

// Unended reports whether a run has begun and its work is not done: it is under
// way, or its node has died, or it was cut.
func (r Record) Unended() bool { return !r.Due.IsZero() && (r.Ended.IsZero() || r.Cut) }

func (r Record) encode() string {
	r.Version = version
	text, _ := json.Marshal(r) // times of a schedule are in the years that JSON can have
	return string(text)
}

// decodeRecord reads a record, which any program that may write to the store
// may have written.
func decodeRecord(text string) (r Record, err error) {
	if len(text) > maxText || json.Unmarshal([]byte(text), &r) != nil || r.Version != version ||
		r.Due.IsZero() || r.Attempt < 1 || len(r.Node) > maxNode || r.PID < 0 {
		return Record{}, fmt.Errorf("%w: the job's record is not of this package's making, or of "+
			"a version that this program does not know: delete it", renewer.ErrRejected)
	}
	return r, nil
}

// short cuts a node's name to what a record may have.
func short(node string) string {
	return strings.ToValidUTF8(node[:min(len(node), maxNode)], "")
}
