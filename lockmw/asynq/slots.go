package asynqmw

import (
	"runtime"
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
)

// slots bounds how many of a server's workers wait for locks, so that tasks
// whose locks are free find a worker. Its invariant: at most half of the workers
// wait, or three quarters if tasks in line do, and at most one of them for a key
// on a task's last attempt. Room is kept for last attempts, since asynq archives
// those that may not wait; one may always wait, even at the only worker.
//
// Of tasks in line one of a key waits, on all servers. Where tasks have the locks, no more of them
// wait than run: half of all workers at most, but more than half of one server's. One that finds no
// room goes back, and leaves its lock idle until it is there again. So half as many again may wait.
//
// It may be used concurrently.
type slots struct {
	half int // of the workers
	few  int // that wait for a key, unless told otherwise

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

// share is how much room tasks take that are not on their last attempt.
type share uint8

const (
	fewOfAKey  share = iota // what is left to last attempts is left free, and to other keys
	manyOfAKey              // what is left to last attempts is left free
	halfAgain               // tasks in line whose last attempts don't wait, by Requeue
)

// take counts a task in if there is room. It reports whether there is.
func (s *slots) take(what waitingFor, of share) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.room(what, of) {
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

func (s *slots) room(what waitingFor, of share) bool {
	if what.last {
		return s.waiting[what] == 0 && (s.all < s.half || s.last == 0)
	}
	switch {
	case of == halfAgain:
		return s.all < s.half+s.half/2
	case s.all >= s.half:
		return false
	default:
		return s.all-s.last < s.spare() && (of == manyOfAKey || s.waiting[what] < s.few)
	}
}

// spare is how many tasks may wait that are not on their last attempt:
// three quarters of the half, and one at least where there is a half.
func (s *slots) spare() int { return max(s.half-(s.half+3)/4, min(s.half, 1)) }

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
