package rivermw

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

const (
	// River writes what became of jobs every 250 ms: a job that is snoozed
	// can't be called before. One that was called too early would miss its
	// turn, as its lock is often free some milliseconds later. So it stays, and
	// asks where it stands after these pauses: each is twice the one before,
	// 252 ms in all.
	firstPause = 4 * time.Millisecond
	lastPause  = 128 * time.Millisecond
	// stayShare is the part of a job's time for which it stays at most: little
	// beside the eighth for which it may wait for its lock after that.
	stayShare = 64
	// mayStay is how many may stay where few jobs are. Of a limit above one,
	// several are called at once. If those that come too early did not stay,
	// the first in line would be the ones that River is putting back, and the
	// others would wait for them beside free slots.
	mayStay = fewSlots / 2
)

// stays counts the jobs of a worker, and those of them that stay: half of them
// may, or a few. It may be used concurrently.
type stays struct{ here, stay atomic.Int64 }

// until runs a job, again and again as long as it stays: one that was called
// and came too early.
func (s *stays) until(ctx context.Context, called bool, run func() jobs.Result) jobs.Result {
	s.here.Add(1)
	defer s.here.Add(-1)
	began := time.Now()
	result := run()
	if !called || !early(result) {
		return result
	}
	defer s.stay.Add(-1)
	if s.stay.Add(1) > max(s.here.Load()/2, mayStay) {
		return result
	}
	if deadline, ok := ctx.Deadline(); ok {
		limited, stop := context.WithDeadline(ctx, began.Add(deadline.Sub(began)/stayShare))
		defer stop()
		ctx = limited
	}
	for pause := firstPause; pause <= lastPause && early(result); pause *= 2 {
		select {
		case <-time.After(pause):
			result = run()
		case <-ctx.Done():
			return result
		}
	}
	return result
}

// early reports whether a job has a place in line, and no turn yet.
func early(r jobs.Result) bool { return r.Outcome == jobs.OutcomeBack && r.InLine }
