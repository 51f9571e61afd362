package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var watchCases = []testCase{
	{"a watch is woken when set up", wokenOnSetup},
	{"a watch is woken by each release", wokenByRelease},
	{"every watch on a name is woken", allWoken},
	{"a release in a batch wakes", wokenByBatch},
	{"a release that is put off wakes", wokenByPuttingOff},
	{"a release that finds the name gone wakes", wokenByLateRelease},
	{"a renewal that finds the name gone wakes", wokenByLateRenewal},
	{"a release of another's name wakes no watch", notWokenByOthers},
	{"a stopped watch is not woken", stopped},
	{"a watch stopped from its own wake", stoppedInside},
	{"a watch after a watch", watchAgain},
	{"watches come and go at once", watchRace},
}

// watched counts the wake-ups of one watch.
type watched struct {
	wakes atomic.Int32
	stop  func()
}

func (s *suite) watch(name string) *watched { return s.watchOf(contract.Name{Text: name}) }

func (s *suite) watchOf(name contract.Name) *watched {
	w := new(watched)
	w.stop = s.Store.Watch(name.Text, name.Limit, func(err error) {
		if err == nil {
			w.wakes.Add(1)
		}
	})
	return w
}

func (w *watched) clear() { w.wakes.Store(0) }

func (w *watched) await(t testing.TB, s *suite, what string) {
	t.Helper()
	s.until(t, "a wake-up after "+what, func() bool { return w.wakes.Load() > 0 })
}

// cycle holds and releases name, for which another owner has asked meanwhile.
func (s *suite) cycle(t testing.TB, name string) {
	t.Helper()
	owner := newOwner()
	s.obtain(t, name, owner)
	s.refused(t, name, newOwner())
	requireStatus(t, store.StatusHeld, s.release(t, name, owner))
}

func wokenOnSetup(t *testing.T, s *suite) {
	free := s.watch("free")
	defer free.stop()
	s.own(t, "held", newOwner(), long)
	held := s.watch("held")
	defer held.stop()
	free.await(t, s, "its set-up")
	held.await(t, s, "its set-up, since a release may have slipped by before")
}

func wokenByRelease(t *testing.T, s *suite) {
	w := s.watch("name")
	defer w.stop()
	w.await(t, s, "its set-up")
	for range 5 {
		owner := newOwner()
		s.obtain(t, "name", owner)
		s.refused(t, "name", newOwner())
		w.clear()
		requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
		w.await(t, s, "a release")
		s.obtain(t, "name", owner)
		requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
	}
}

func allWoken(t *testing.T, s *suite) {
	var all []*watched
	for range 8 {
		w := s.watch("name")
		defer w.stop()
		all = append(all, w)
	}
	for _, w := range all {
		w.await(t, s, "its set-up")
	}
	owner := newOwner()
	s.own(t, "name", owner, long)
	s.refused(t, "name", newOwner())
	for _, w := range all {
		w.clear()
	}
	requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
	for _, w := range all {
		w.await(t, s, "a release")
	}
}

func wokenByBatch(t *testing.T, s *suite) {
	owner := newOwner()
	var all []*watched
	var holds []store.Hold
	for i := range 5 {
		name := fmt.Sprint("name ", i)
		w := s.watch(name)
		defer w.stop()
		w.await(t, s, "its set-up")
		s.own(t, name, owner, long)
		s.refused(t, name, newOwner())
		all = append(all, w)
		holds = append(holds, store.Hold{Name: name, Owner: owner})
	}
	for _, w := range all {
		w.clear()
	}
	s.holds(t, s.Store.Release, holds)
	for _, w := range all {
		w.await(t, s, "a release in a batch")
	}
}

// wokenByPuttingOff is there since a waiter may ask for how long.
func wokenByPuttingOff(t *testing.T, s *suite) {
	w := s.watch("name")
	defer w.stop()
	w.await(t, s, "its set-up")
	a := newOwner()
	s.own(t, "name", a, long)
	w.clear()
	requireStatus(t, store.StatusHeld, s.releaseIn(t, a, s.short))
	w.await(t, s, "a release that is put off")
}

func wokenByLateRelease(t *testing.T, s *suite) {
	s.wokenWhenGone(t, func(owner string) store.Status { return s.release(t, "name", owner) })
}

func wokenByLateRenewal(t *testing.T, s *suite) {
	s.wokenWhenGone(t, func(owner string) store.Status { return s.renew(t, "name", owner, long) })
}

// wokenWhenGone is about a name that no release has freed: its key was deleted
// behind the store's back, or lapsed. The owner's request that finds out wakes
// the watches.
func (s *suite) wokenWhenGone(t *testing.T, find func(owner string) store.Status) {
	t.Helper()
	w := s.watch("name")
	defer w.stop()
	w.await(t, s, "its set-up")
	a := newOwner()
	s.own(t, "name", a, s.short)
	if s.Delete != nil {
		s.Delete("name")
	}
	s.wait(t, s.short+20*time.Millisecond)
	w.clear()
	requireStatus(t, store.StatusGone, find(a))
	w.await(t, s, "the owner found the name gone")
}

// notWokenByOthers is about a late clean-up: when another owner has
// the name, it is no reason for the waiters to ask.
func notWokenByOthers(t *testing.T, s *suite) {
	w, other := s.watch("name"), s.watch("other")
	defer w.stop()
	defer other.stop()
	w.await(t, s, "its set-up")
	other.await(t, s, "its set-up")
	s.own(t, "name", newOwner(), long)
	s.wait(t, 50*time.Millisecond) // for what is late of the set-up
	w.clear()
	requireStatus(t, store.StatusTaken, s.release(t, "name", newOwner()))
	other.clear()
	s.cycle(t, "other")
	other.await(t, s, "a release")
	assert.Zero(t, w.wakes.Load())
}

// stopped uses a second watch to know when a release has been told of; which of
// the two is told first is open, so that a late call to the stopped one shows
// at the next round at the latest.
func stopped(t *testing.T, s *suite) {
	w, other := s.watch("name"), s.watch("name")
	defer other.stop()
	w.await(t, s, "its set-up")
	other.await(t, s, "its set-up")
	w.stop()
	w.clear()
	for range 3 {
		other.clear()
		s.cycle(t, "name")
		other.await(t, s, "a release")
	}
	assert.Zero(t, w.wakes.Load())
}

func stoppedInside(t *testing.T, s *suite) {
	stop := make(chan func(), 1)
	done := make(chan struct{})
	var wakes atomic.Int32
	var once sync.Once
	stop <- s.Store.Watch("name", false, func(error) {
		wakes.Add(1)
		select {
		case f := <-stop: // not there yet if the set-up's wake-up was quick
			f()
			once.Do(func() { close(done) })
		default:
		}
	})
	s.until(t, "a wake-up to stop in", func() bool {
		s.cycle(t, "name")
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	wakes.Store(0)
	other := s.watch("name")
	defer other.stop()
	other.await(t, s, "its set-up")
	for range 3 {
		other.clear()
		s.cycle(t, "name")
		other.await(t, s, "a release")
	}
	assert.Zero(t, wakes.Load())
}

func watchAgain(t *testing.T, s *suite) {
	for range 3 {
		w := s.watch("name")
		w.await(t, s, "its set-up")
		owner := newOwner()
		s.obtain(t, "name", owner)
		s.refused(t, "name", newOwner())
		w.clear()
		requireStatus(t, store.StatusHeld, s.release(t, "name", owner))
		w.await(t, s, "a release")
		w.stop()
	}
}

// watchRace is for the race detector, and for a store that hangs.
func watchRace(t *testing.T, s *suite) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			name := fmt.Sprint("name ", g%2)
			for range 20 {
				w := s.watch(name)
				owner := newOwner()
				if s.acquire(t, name, owner, long).Status == store.StatusHeld {
					assertStatus(t, store.StatusHeld, s.release(t, name, owner))
				}
				w.stop()
			}
		})
	}
	wg.Wait()
}
