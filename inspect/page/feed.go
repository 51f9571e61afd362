package page

import (
	"context"
	"time"
)

const (
	// readWithin bounds one reading of the store.
	readWithin = 10 * time.Second
	// pauseFactor is how many times as long as a reading the pause behind it is
	// at least: so a large store is asked for a fifth of the time at most.
	pauseFactor = 4
	// lingerFor is how long the list is read on when the last browser that was
	// sent it has left: so who looks elsewhere for a while finds what has
	// happened since.
	lingerFor = 15 * time.Minute
	// mostBehind is how many events a looker may be behind before it is cut
	// off.
	mostBehind = 16
)

// reading is what one look at the store has shown. It does not change.
type reading struct {
	list  *list
	lock  *lock
	fault *fault
	// whole is the event for a looker that comes now, and change for those that
	// have had the reading before; of the first reading, it is the whole. All
	// lookers share their bytes.
	whole, change func() []byte
}

// feed reads one thing for all who look at it, from when the first one comes
// until none is left, and the list for [lingerFor] more. Page.mu guards its
// lookers, latest and until.
type feed struct {
	page    *Page
	of      subject
	client  string // who came first
	began   time.Time
	lookers map[*looker]bool
	latest  *reading  // nil before the first
	until   time.Time // it lingers
}

// looker is one who looks. Its news are events, and closed when it is too far
// behind.
type looker struct {
	news  chan func() []byte
	stays bool // it is sent more than one
}

// look has a looker hear of what is read of a subject, until it leaves. It
// returns nil if too many locks are read already.
func (p *Page) look(s subject, client string, stays bool) (*feed, *looker) {
	l := &looker{make(chan func() []byte, mostBehind), stays}
	p.mu.Lock()
	defer p.mu.Unlock()
	f, known := p.feeds[s]
	if !known {
		f = &feed{
			page: p, of: s, client: client, began: time.Now(), lookers: make(map[*looker]bool),
		}
	}
	if !known && !p.closed {
		if s != all && !p.loops.take(client) {
			return nil, nil
		}
		p.feeds[s] = f
		p.asking.Go(f.loop)
	}
	f.lookers[l] = true
	if f.latest != nil {
		l.news <- f.latest.whole
	}
	return f, l
}

func (f *feed) leave(l *looker) {
	f.page.mu.Lock()
	defer f.page.mu.Unlock()
	delete(f.lookers, l)
	if l.stays && f.of == all {
		f.until = time.Now().Add(lingerFor)
	}
}

// forget has the next one who looks at the subject read the store anew, since
// it was changed. Those who look already stay with the feed that they have.
func (p *Page) forget(s subject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.feeds, s)
}

// once returns a reading that is new, or nil if ctx or the page ends first.
// What is being read then is there for who asks again. Its fault is crowded if
// nothing was read.
func (p *Page) once(ctx context.Context, s subject, client string) *reading {
	f, l := p.look(s, client, false)
	if f == nil {
		return &reading{fault: crowded}
	}
	defer f.leave(l)
	select {
	case <-l.news:
	case <-ctx.Done():
		return nil
	case <-p.ctx.Done():
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
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
		pause := pauseFactor * took
		if r.fault != nil { // it waited for a store that is away, and cost that nothing
			pause = took
		}
		if f.page.ctx.Err() == nil {
			f.publish(r)
		}
		select {
		case <-time.After(max(f.page.cfg.Every-took, pause)):
		case <-f.page.ctx.Done():
			return
		}
	}
}

// next returns the latest reading, and whether another one is wanted. If not,
// the loop ends, and nothing is kept of the feed.
func (f *feed) next() (before *reading, looked bool) {
	f.page.mu.Lock()
	defer f.page.mu.Unlock()
	if len(f.lookers) > 0 || time.Now().Before(f.until) {
		return f.latest, true
	}
	if f.page.feeds[f.of] == f { // else it was forgotten
		delete(f.page.feeds, f.of)
	}
	if f.of != all {
		f.page.loops.leave(f.client)
	}
	if none := len(f.page.feeds) == 0; none || f.of == all {
		f.page.history.stop(none)
	}
	return nil, false
}

// read reads what it is of, and what is new since the reading before; nil for
// none.
func (f *feed) read(ctx context.Context, before *reading) *reading {
	if f.of == all {
		return f.page.readList(ctx, before)
	}
	return f.readLock(ctx, before)
}

// publish tells all lookers of a reading.
func (f *feed) publish(r *reading) {
	f.page.mu.Lock()
	defer f.page.mu.Unlock()
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
