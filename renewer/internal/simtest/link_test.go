package simtest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// link is one process's way to the server: the [store.Store] of its keepers.
type link struct {
	w       *world
	process int
	cut     *spells

	inbox int          // its number, which another life of the process does not have
	dead  atomic.Bool  // it has been killed
	heard atomic.Int64 // until when the server takes it to be alive, after that

	mu      sync.Mutex
	count   map[string]int // requests so far, by operation and name
	watch   map[*watch]struct{}
	listens bool                // its inbox is open
	places  map[uint64]*placeOf // that it may have on the server
	last    *store.Grant        // that a message has told of
}

// placeOf is a place as its link knows it.
type placeOf struct {
	name  string
	since time.Duration // when it came, by the server's clock; 0 as long as that is unknown
	first store.Claim   // from it
	given *store.Grant  // to that, as a message has told
}

var _ store.Store = (*link)(nil)

func (l *link) Engine() store.Store { return l }

func newLink(w *world, process, inbox int) *link {
	return &link{
		w: w, process: process, inbox: inbox, count: map[string]int{},
		watch: map[*watch]struct{}{}, places: map[uint64]*placeOf{},
		cut: w.plan.spells(w.plan.cuts, "cut", inbox),
	}
}

// errReset is what a caller hears of a request that was lost, if it hears of
// it.
var errReset = errors.New("connection reset")

// fate is what happens to one request on its way.
type fate struct {
	out, back time.Duration
	lost      bool
	replyLost bool
	told      time.Duration // when its caller hears that there will be no reply; 0: never
	copied    time.Duration // when it arrives once more, after the first time; 0: never
}

// fate is decided by what is asked, and how often it has been asked before.
func (l *link) fate(op, name string) fate {
	l.mu.Lock()
	l.count[op+name]++
	n := l.count[op+name]
	l.mu.Unlock()
	p := &l.w.plan
	d := newDice(p.seed, op+" "+name, l.inbox, n)
	f := fate{out: p.delay(d), back: p.delay(d)}
	if l.w.calm.Load() {
		return fate{out: 100 * time.Microsecond, back: 100 * time.Microsecond}
	}
	f.lost, f.replyLost = d.chance(p.loss), d.chance(p.loss)
	if f.replyLost && d.chance(.3) {
		// often long after its caller was told that there is no reply
		f.out = d.between(0, p.settle)
	}
	told := d.between(time.Microsecond, 50*time.Millisecond)
	if !d.chance(p.silent) || p.weather == drizzle && op == "renew" {
		f.told = told
	}
	if d.chance(p.copies) {
		f.copied = d.between(0, p.settle-f.out)
	}
	return f
}

// call sends a request and waits for the reply, until ctx ends or the
// caller is told that there is none.
func (l *link) call(ctx context.Context, op, name string, r *request) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, err
	}
	if l.dead.Load() {
		<-ctx.Done()
		return reply{}, ctx.Err()
	}
	f := l.fate(op, name)
	r.process, r.inbox, r.sent = l.process, l.inbox, l.w.now()
	replied := make(chan reply, 1)
	var told <-chan time.Time
	if f.lost || f.replyLost {
		if f.told > 0 {
			timer := time.NewTimer(f.told)
			defer timer.Stop()
			told = timer.C
		}
	}
	switch {
	case f.lost:
		l.w.tally.count(requestLost)
		l.w.trace.note(r.sent, "process %d asks: %v; it is lost", l.process, r)
	case !l.open():
		l.w.tally.count(cutOff)
		l.w.trace.note(r.sent, "process %d asks: %v; it is cut off", l.process, r)
	default:
		time.AfterFunc(f.out, func() { l.arrive(r, f, replied) })
	}
	select {
	case p := <-replied:
		r.answered.Store(true)
		return p, nil
	case <-told:
		r.left.Store(true)
		return reply{}, errReset
	case <-ctx.Done():
		r.left.Store(true)
		return reply{}, ctx.Err()
	}
}

// open reports whether anything gets through.
func (l *link) open() bool { return l.w.calm.Load() || l.cut.end(l.w.now()) == 0 }

// arrive is a request at the server, which does not get to it while it is
// frozen.
func (l *link) arrive(r *request, f fate, replied chan<- reply) {
	now := l.w.now()
	if thaw := l.w.frozen.end(now); thaw > 0 && !l.w.calm.Load() {
		l.w.tally.count(frozenAt)
		time.AfterFunc(thaw-now+f.out%time.Millisecond, func() { l.arrive(r, f, replied) })
		return
	}
	if r.left.Load() {
		l.w.tally.count(lateActed)
	}
	p := l.w.server.carryOut(r, now)
	l.w.trace.note(now, "process %d asked at %v: %v; the server says %v", l.process, r.sent, r, p)
	if f.copied > 0 {
		copied := fate{out: f.out}
		time.AfterFunc(f.copied, func() { l.arrive(r, copied, make(chan reply, 1)) })
	}
	if f.replyLost || !l.open() || l.dead.Load() {
		l.w.tally.count(replyLost)
		l.w.trace.note(now, "the reply is lost")
		return
	}
	time.AfterFunc(f.back, func() { replied <- p })
}

func (l *link) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	r := &request{claims: slices.Clone(claims)}
	l.present(r)
	if g := l.told(&r.claims[0]); g != nil {
		return []store.Grant{*g}
	}
	p, err := l.call(ctx, "acquire", claims[0].Name, r)
	if err == nil {
		l.settle(r, p)
	} else {
		p.grants = make([]store.Grant, len(claims))
		for i := range p.grants {
			p.grants[i].Err = err
		}
	}
	return p.grants
}

func (l *link) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	return l.holds(ctx, "renew", &request{holds: slices.Clone(holds), renew: true})
}

func (l *link) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	r := &request{holds: slices.Clone(holds)}
	l.giveUp(r)
	return l.holds(ctx, "release", r)
}

func (l *link) holds(ctx context.Context, op string, r *request) []store.Answer {
	p, err := l.call(ctx, op, r.holds[0].Name, r)
	if err != nil {
		p.answers = make([]store.Answer, len(r.holds))
		for i := range p.answers {
			p.answers[i].Err = err
		}
	}
	return p.answers
}

// Settle is how long a request may be on its way, unless the server is frozen.
func (l *link) Settle() time.Duration { return l.w.plan.settle }
