package line

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
)

// waiting is what waits here for one lock. It goes when it has neither watches
// nor places.
type waiting struct {
	name    contract.Name
	watches []*nameWatch // replaced, never changed, so that they can be called without the mutex
	places  int
	told    int         // places whose turn has come, of several keepers perhaps
	outside bool        // its last claim got no place, or it has made none
	mailbox *mailbox    // nil without watches
	long    bool        // it is waited for since LongWait
	soon    *time.Timer // sets long; nil without watches, and on a cluster
}

// nameWatch is one caller of Watch.
type nameWatch struct {
	wake    func(error)
	stopped atomic.Bool
	told    atomic.Bool // has heard an error since its last wake-up, and needs no second
	deafen  func()      // ends what it hears of what is for all; nil without. Guarded by Line.mu
}

// freedChannel is where those who wait for a lock without a place hear that it
// is free.
func (l *Line) freedChannel(name contract.Name) string { return l.Key(name) + ":freed" }

// waitingFor is what waits for a lock. Under mu.
func (l *Line) waitingFor(name contract.Name) *waiting {
	w := l.names[name]
	if w == nil {
		w = &waiting{name: name}
		l.names[name] = w
	}
	return w
}

// tidy forgets what nothing waits for. Under mu.
func (l *Line) tidy(w *waiting) {
	if w.places == 0 && len(w.watches) == 0 {
		delete(l.names, w.name)
	}
}

// Watch calls wake when a lock may be free, or with an error, once, when that
// is not heard. It waits for nothing; a call of wake that has begun may outlast
// stop.
func (l *Line) Watch(name contract.Name, wake func(error)) (stop func()) {
	one := &nameWatch{wake: wake}
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.waitingFor(name)
	w.watches = append(slices.Clone(w.watches), one)
	l.receive(w)
	missed := w.told > 0
	switch {
	case w.mailbox == nil: // no claim here wants a place
		w.outside = true
	case w.places == 0:
		// Its claim got no place, since the mailbox was not open: that may be
		// open by now.
		missed = w.mailbox.open
	}
	if missed {
		go one.call(nil) // not from here: the caller may hold what wake needs
	}
	if w.soon == nil && !l.Cluster {
		w.soon = time.AfterFunc(l.LongWait, func() { l.waitsLong(w) })
	}
	l.listen(w)
	return func() { l.stop(w, one) }
}

func (l *Line) stop(w *waiting, one *nameWatch) {
	if one.stopped.Swap(true) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.deafen != nil {
		one.deafen()
	}
	w.watches = slices.DeleteFunc(slices.Clone(w.watches), func(o *nameWatch) bool {
		return o == one
	})
	if len(w.watches) > 0 {
		return
	}
	if w.mailbox != nil {
		l.leaveMailbox(w.mailbox)
		w.mailbox = nil
	}
	if w.soon != nil {
		w.soon.Stop()
		w.soon = nil
	}
	w.outside, w.long = false, false
	l.tidy(w)
}

// waitsLong notes that a lock has been waited for since LongWait.
func (l *Line) waitsLong(w *waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.long = w.soon != nil // it may have ended at this moment
	l.listen(w)
}

// listen has the watches of a lock hear what is for all, where no place may be
// told: on a cluster, where its channel moves with the slot; where the claim
// got none; and where its line may have been lost meanwhile. Under mu.
func (l *Line) listen(w *waiting) {
	if !l.Cluster && !w.outside && !w.long {
		return
	}
	for _, one := range w.watches {
		if one.deafen == nil {
			one.deafen = l.Subscriber.Watch(l.freedChannel(w.name),
				func(_ string, err error) { one.call(err) })
		}
	}
}

// wakeAll tells all watches of some locks.
func (l *Line) wakeAll(err error, of func(*waiting) bool) {
	var watches []*nameWatch
	l.mu.Lock()
	for _, w := range l.names {
		if of(w) {
			watches = append(watches, w.watches...)
		}
	}
	l.mu.Unlock()
	callAll(watches, err)
}

func callAll(watches []*nameWatch, err error) {
	for _, one := range watches {
		one.call(err)
	}
}

func (w *nameWatch) call(err error) {
	if w.stopped.Load() || w.told.Swap(err != nil) && err != nil {
		return
	}
	w.wake(err)
}
