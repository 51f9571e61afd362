package cronmw

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

// mostTurns is how often another schedule's record may follow one of this job's
// own before that is told. Once is what the nodes of before a deployment see of
// it, if the schedule is changed.
const mostTurns = 2

// shared counts how often ticks of another schedule follow this job's own on
// record.
type shared struct {
	mu    sync.Mutex
	own   bool // the record seen last was written by the job's own schedule
	turns int
}

// next counts a record, and reports once that there were too many turns.
func (s *shared) next(own bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := s.own && !own
	s.own = own
	if turn {
		s.turns++
	}
	return turn && s.turns == mostTurns
}

// compare tells the observer if the record is of another schedule again and
// again.
func (j *Job) compare(ctx context.Context, rec ticks.Record) {
	if rec.Due.IsZero() || !j.shared.next(!j.book.Changed(rec)) {
		return
	}
	j.tell(ctx, time.Now(), renewer.Run{
		Due: rec.Due, Outcome: renewer.OutcomeConflict, Holder: rec.Holder(),
		Err: fmt.Errorf("%w: job %q: its record is written by this schedule and by another one in "+
			"turns: two programs have a job of this name, and take each other's ticks: give each "+
			"a name of its own. While a changed schedule is being deployed that is no fault",
			renewer.ErrConfig, j.book.Name),
	})
}
