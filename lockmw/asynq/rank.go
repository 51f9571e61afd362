package asynqmw

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

// rankHeader is the header of a task that [NewTask] made: when that was, in
// microseconds.
const rankHeader = "Lockbeat-Rank"

// NewTask is asynq.NewTask, and notes in a header when it was called: by that
// lockmw.Replace and lockmw.Latest know the newest task, in whatever order
// workers and retries bring tasks. Other tasks go by when a worker takes them
// up. Tasks of several processes are in order as far as their clocks agree:
// where that is not enough, let the key function give a version, by
// lockmw.Ranked.
//
// Make a task anew each time that it is enqueued. It may be called
// concurrently.
func NewTask(typename string, payload []byte, opts ...asynq.Option) *asynq.Task {
	headers := map[string]string{rankHeader: strconv.FormatInt(nextRank(), 10)}
	return asynq.NewTaskWithHeaders(typename, payload, headers, opts...)
}

var lastRank atomic.Int64

// nextRank is the time, or more than the last.
func nextRank() int64 {
	for {
		last := lastRank.Load()
		next := max(time.Now().UnixMicro(), last+1)
		if lastRank.CompareAndSwap(last, next) {
			return next
		}
	}
}

// rankOf is the rank of a task, 0 for none. One from a clock that is ahead
// would keep out all other tasks until then.
func rankOf(task *asynq.Task) int64 {
	rank, err := strconv.ParseInt(task.Headers()[rankHeader], 10, 64)
	if err != nil || rank < 1 {
		return 0
	}
	return min(rank, time.Now().UnixMicro())
}
