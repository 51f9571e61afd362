package jobs

import (
	"runtime"
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
)

// Slots bounds how many of a server's workers wait for locks, so that jobs
// whose locks are free find a worker: half of the workers, and an eighth, or
// one, for a name. Jobs that are Last and can't go back may take a second half,
// one of a name, or the only worker. Jobs in line are not counted.
//
// It may be used concurrently. The zero value is that of one worker.
type Slots struct {
	half int // of the workers
	few  int // for a key: with more its jobs are done sooner, those of many busy keys later

	mu      sync.Mutex
	waiting map[waitingFor]int
	all     int // jobs that wait
	last    int // those among them that are on their last attempt
}

// waitingFor is what jobs in a slot wait for. Two keepers may lock in different
// stores.
type waitingFor struct {
	keeper *renewer.Keeper
	name   string
	last   bool // on the job's last attempt
}

// NewSlots returns those of a server with so many workers; if that is less than
// one, with runtime.NumCPU.
func NewSlots(workers int) *Slots {
	if workers < 1 {
		workers = runtime.NumCPU()
	}
	return &Slots{half: workers / 2, few: max(workers/8, 1)}
}

// take counts a job in if there is room. It reports whether there is.
func (s *Slots) take(what waitingFor) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.room(what) {
		return false
	}
	s.count(what, 1)
	return true
}

// leave counts out a job that was counted in.
func (s *Slots) leave(what waitingFor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(what, -1)
}

func (s *Slots) room(what waitingFor) bool {
	if what.last {
		return s.waiting[what] == 0 && (s.last < s.half || s.last == 0)
	}
	return s.all < s.half && s.waiting[what] < s.few
}

func (s *Slots) count(what waitingFor, by int) {
	s.all += by
	if what.last {
		s.last += by
	}
	if s.waiting == nil {
		s.waiting = make(map[waitingFor]int)
	}
	s.waiting[what] += by
	if s.waiting[what] == 0 {
		delete(s.waiting, what)
	}
}
