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
	// whole is the event for a looker that has none yet, and change for one that has the reading
	// before. All lookers share their bytes.
	whole  func() []byte
	change []byte
}

// feed reads one thing for all who look at it, and nothing while none does.
type feed struct {
	page *Page
	read func(ctx context.Context, before *reading) *reading

	mu      sync.Mutex
	lookers map[*looker]bool
	latest  *reading           // nil if the store must be read first
	due     time.Time          // no reading begins before
	stop    context.CancelFunc // of the loop; nil while none runs
}

// looker is one who looks. Its news are closed when it is too far behind.
type looker struct {
	news chan []byte
	// fresh means that it has had no event yet.
	fresh bool
}

func (p *Page) newFeed(read func(ctx context.Context, before *reading) *reading) *feed {
	return &feed{page: p, read: read, lookers: make(map[*looker]bool)}
}

// look has a looker hear of what is read, until it leaves.
func (f *feed) look() *looker {
	l := &looker{news: make(chan []byte, mostBehind), fresh: true}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookers[l] = true
	if f.stop == nil {
		if !time.Now().Before(f.due) {
			f.latest = nil // it is of when somebody last looked
		}
		ctx, stop := context.WithCancel(f.page.ctx)
		f.stop = stop
		f.page.start(func() { f.loop(ctx) })
	}
	if f.latest != nil {
		l.news <- f.latest.whole()
		l.fresh = false
	}
	return l
}

func (f *feed) leave(l *looker) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.drop(l)
}

// drop also ends the loop when no looker is left.
func (f *feed) drop(l *looker) {
	delete(f.lookers, l)
	if len(f.lookers) == 0 && f.stop != nil {
		f.stop()
		f.stop = nil
	}
}

// once returns a reading that is new, or nil if ctx or the page ends first.
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

func (f *feed) loop(ctx context.Context) {
	for {
		f.mu.Lock()
		wait, before := time.Until(f.due), f.latest
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		start := time.Now()
		bounded, cancel := context.WithTimeout(ctx, readWithin)
		r := f.read(bounded, before)
		cancel()
		f.publish(ctx, r, start)
	}
}

// publish tells all lookers of a reading that began at start.
func (f *feed) publish(ctx context.Context, r *reading, start time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil { // the last looker has left, and another loop may run
		return
	}
	f.latest = r
	f.due = start.Add(max(f.page.cfg.Every, (1+pauseFactor)*time.Since(start)))
	for l := range f.lookers {
		event := r.change
		if l.fresh {
			event = r.whole()
			l.fresh = false
		}
		select {
		case l.news <- event:
		default:
			close(l.news)
			f.drop(l)
		}
	}
}

// idle reports whether nothing is lost when the feed is forgotten.
func (f *feed) idle() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.lookers) == 0 && !time.Now().Before(f.due)
}
