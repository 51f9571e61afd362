package asynqmw

import (
	"runtime"
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
)

// slots bounds how many of a server's workers wait for locks, so that tasks whose locks are free
// find a worker: half of the workers, and an eighth for a key. A task on its last attempt is
// archived if it may not wait, and waits for longer: so half may be such tasks, of a key each,
// beside others that wait a moment more; one may always wait, even at the only worker. Tasks in
// line are not counted: of them one of a key waits, for a moment, on all servers.
//
// It may be used concurrently.
type slots struct {
	half int // of the workers
	few  int // that wait for a key

	mu      sync.Mutex
	waiting map[waitingFor]int
	all     int // tasks that wait
	last    int // those among them that are on their last attempt
}

// waitingFor is what tasks in a slot wait for. Two keepers may lock in different stores.
type waitingFor struct {
	keeper *renewer.Keeper
	name   string
	last   bool // on the task's last attempt
}

// newSlots returns those of a server with this Config.Concurrency, read as asynq reads it. A key
// gets an eighth of the workers: with more of them its tasks are done sooner, those of many busy
// keys later.
func newSlots(concurrency int) *slots {
	if concurrency < 1 {
		concurrency = runtime.NumCPU()
	}
	return &slots{
		half: concurrency / 2, few: max(concurrency/8, 1), waiting: make(map[waitingFor]int),
	}
}

// take counts a task in if there is room. It reports whether there is.
func (s *slots) take(what waitingFor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.room(what) {
		return false
	}
	s.count(what, 1)
	return true
}

// leave counts out a task that was counted in.
func (s *slots) leave(what waitingFor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(what, -1)
}

func (s *slots) room(what waitingFor) bool {
	if what.last {
		return s.waiting[what] == 0 && (s.last < s.half || s.last == 0)
	}
	return s.all < s.half && s.waiting[what] < s.few
}

func (s *slots) count(what waitingFor, by int) {
	s.all += by
	if what.last {
		s.last += by
	}
	s.waiting[what] += by
	if s.waiting[what] == 0 {
		delete(s.waiting, what)
	}
}
