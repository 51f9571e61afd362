package page

import (
	"context"
	"sync"
	"time"
)

const (
	// readWithin bounds one reading of the store.
	readWithin = 10 * time.Second
	// pauseFactor is how many times as long as a reading the pause behind it is at least: so a
	// large store is asked for a fifth of the time at most.
	pauseFactor = 4
	// mostBehind is how many events a looker may be behind before it is cut off.
	mostBehind = 16
)

// reading is what one look at the store has shown. It does not change.
type reading struct {
	list  *list
	lock  *lock
	fault *fault
	// whole is the event for a looker that comes now, and change for those that have had the
	// reading before; of the first reading, it is the whole. All lookers share their bytes.
	whole  func() []byte
	change []byte
}

// feed reads one thing for all who look at it, and nothing while none does.
type feed struct {
	page *Page
	read func(ctx context.Context, before *reading) *reading

	mu      sync.Mutex
	lookers map[*looker]bool
	latest  *reading // nil while the loop does not run, and before its first
	running bool     // the loop, which ends when it is to read and there is no looker
}

// looker is one who looks. Its news are closed when it is too far behind.
type looker struct{ news chan []byte }

func (p *Page) newFeed(read func(ctx context.Context, before *reading) *reading) *feed {
	return &feed{page: p, read: read, lookers: make(map[*looker]bool)}
}

// look has a looker hear of what is read, until it leaves.
func (f *feed) look() *looker {
	l := &looker{make(chan []byte, mostBehind)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookers[l] = true
	if !f.running {
		f.running = f.page.start(f.loop)
	}
	if f.latest != nil {
		l.news <- f.latest.whole()
	}
	return l
}

func (f *feed) leave(l *looker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.lookers, l)
}

// once returns a reading that is new, or nil if ctx or the page ends first. What is being read then
// is there for who asks again.
func (f *feed) once(ctx context.Context) *reading {
	l := f.look()
	defer f.leave(l)
	select {
	case <-l.news:
	case <-ctx.Done():
		return nil
	case <-f.page.ctx.Done():
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latest
}

// loop reads as long as there are lookers.
func (f *feed) loop() {
	for before, looked := f.next(); looked; before, looked = f.next() {
		start := time.Now()
		ctx, cancel := context.WithTimeout(f.page.ctx, readWithin)
		r := f.read(ctx, before)
		cancel()
		took := time.Since(start)
		if f.page.ctx.Err() == nil {
			f.publish(r)
		}
		select {
		case <-time.After(max(f.page.cfg.Every-took, pauseFactor*took)):
		case <-f.page.ctx.Done():
			return
		}
	}
}

// next returns the latest reading, and whether another one is wanted. If not, the loop ends.
func (f *feed) next() (before *reading, looked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.lookers) == 0 {
		f.running, f.latest = false, nil
		return nil, false
	}
	return f.latest, true
}

// publish tells all lookers of a reading.
func (f *feed) publish(r *reading) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latest = r
	for l := range f.lookers {
		select {
		case l.news <- r.change:
		default:
			close(l.news)
			delete(f.lookers, l)
		}
	}
}

// idle reports whether nothing is lost when the feed is forgotten.
func (f *feed) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.running
}
