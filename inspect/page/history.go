package page

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// history is what a page has seen of leases: those that are held, and how
// others have ended. What is shorter than the time between two readings it may
// not see at all. Its lock is held for no other.
type history struct {
	cfg *Config

	mu    sync.Mutex
	began int64 // since when the list is read; 0: it is not
	round int   // the number of the reading of the list
	held  map[subject]*follow
	past  past
	lost  losses
}

// follow are the leases of one name that are held.
type follow struct {
	round  int // when it was seen last
	leases []lease
}

// mostFollowed is how many slots of a limit are followed, those with the
// smallest tokens.
const mostFollowed = mostShown

// lease is one that is held, as far as it was seen. Times are Unix milliseconds
// by the clock of this process.
type lease struct {
	who

	trace        string
	fence        int64
	since, until int64
	seen         int64 // when it was there last
	broken       *broken
	lost         bool // that it is broken was noted

	moves int   // how often until was seen to be put off
	left  int64 // how long it was when it was put off last
	usual int64 // and the time before that
	kept  bool  // until was seen to come nearer, as no renewal does
}

// saw notes who has a name now.
func (h *history) saw(s subject, l *store.Lock, now time.Time) {
	next := leasesOf(l, now)
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.held[s]
	if f == nil {
		if len(next) == 0 {
			return
		}
		f = new(follow)
		h.held[s] = f
	}
	old := f.leases
	for i := range next {
		n := &next[i]
		for len(old) > 0 && old[0].fence < n.fence && (s.limit || !old[0].handedOn(n)) {
			h.ended(s, &old[0], l.Foreign, now)
			old = old[1:]
		}
		if len(old) > 0 && old[0].fence <= n.fence {
			n.follow(&old[0])
			old = old[1:]
		}
		h.noteBroken(s, n, now)
	}
	for i := range old {
		h.ended(s, &old[i], l.Foreign, now)
	}
	f.leases, f.round = next, h.round
	if len(next) == 0 {
		delete(h.held, s)
	}
}

// leasesOf are the leases of a name in the order of their tokens.
func leasesOf(l *store.Lock, now time.Time) []lease {
	all := make([]lease, len(l.Slots))
	for i, s := range l.Slots {
		since, until := clock(*l, s, now)
		all[i] = lease{
			who: whoOf(s.Holder), trace: traceID(s.Trace), fence: s.Fence,
			since: since, until: until, seen: now.UnixMilli(), left: s.TTL.Milliseconds(),
		}
		if s.Broken != nil {
			all[i].broken = brokenOf(s.Broken)
		}
	}
	slices.SortFunc(all, func(a, b lease) int { return cmp.Compare(a.fence, b.fence) })
	return all[:min(len(all), mostFollowed)]
}

// handedOn reports whether next is what a lease of a lock became within its
// process.
func (l *lease) handedOn(next *lease) bool {
	return l.Node == next.Node && l.PID == next.PID && steady(l.since, next.since) == l.since
}

// follow goes on from what was seen of the same lease before, or of one that
// was handed on.
func (l *lease) follow(before *lease) {
	left := l.left
	l.lost, l.kept = before.lost, before.kept
	l.moves, l.left, l.usual = before.moves, before.left, before.usual
	l.since, l.until = steady(before.since, l.since), steady(before.until, l.until)
	switch {
	case l.until > before.until:
		l.moves++
		l.left, l.usual = left, before.left
	case l.until < before.until:
		l.kept = true
	}
}

// lapsed reports whether a lease that is gone by now was not renewed in time,
// as far as that is certain: it was seen to be renewed to the same length
// twice, and to be overdue the last time. A lease that HoldAtLeast keeps for an
// operation that has returned lapses, too, but is put off once, and to another
// length.
func (l *lease) lapsed(now time.Time) bool {
	apart := max(l.left, l.usual) - min(l.left, l.usual)
	return l.moves >= 2 && !l.kept && apart <= min(2000, l.usual/2) &&
		l.until <= now.UnixMilli() && l.until-l.seen < l.usual/2
}

// ended notes that a lease is gone.
func (h *history) ended(s subject, l *lease, foreign bool, now time.Time) {
	how := ""
	switch {
	case l.broken != nil:
		how = l.broken.String()
		h.noteBroken(s, l, now)
	case foreign:
		how = "overwritten by another program"
	case l.lapsed(now):
		how = "not renewed in time"
	}
	e := h.entry(s, l, how, now)
	if how != "" && l.broken == nil {
		h.lost.add(&e, false)
	}
	h.past.add(&e)
}

// noteBroken notes once that a lease was broken. To be replaced by a newer call
// is no loss.
func (h *history) noteBroken(s subject, l *lease, now time.Time) {
	if l.broken == nil || l.broken.Replaced || l.lost {
		return
	}
	l.lost = true
	e := h.entry(s, l, l.broken.String(), now)
	h.lost.add(&e, true)
}

func (h *history) entry(s subject, l *lease, how string, now time.Time) entry {
	return entry{
		subject: s, hash: h.cfg.hash(s.name), who: l.who, trace: l.trace, fence: l.fence,
		since: l.since, at: now.UnixMilli(), how: how,
	}
}

// forced notes a lease that this page has freed at once: nobody sees it any
// more.
func (h *history) forced(s subject, fence int64, b *broken) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.held[s]
	if f == nil {
		return
	}
	for i := range f.leases {
		if f.leases[i].fence == fence {
			f.leases[i].broken = b
		}
	}
}

// begin begins a reading of the list.
func (h *history) begin(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.began == 0 {
		h.began = now.UnixMilli()
	}
	h.round++
}

// complete notes that the reading has shown all that is held, or, if it was
// cut, not all.
func (h *history) complete(cut bool, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s, f := range h.held {
		if f.round == h.round {
			continue
		}
		for i := range f.leases {
			if !cut {
				h.ended(s, &f.leases[i], false, now)
			}
		}
		delete(h.held, s)
	}
	h.past.forget(now)
}

// stop notes that the list is not read any more; all reports whether nothing
// is.
func (h *history) stop(all bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.began = 0
	clear(h.held)
	if all {
		h.past, h.lost = past{}, losses{}
	}
}

// told is what the list shows of it.
type told struct {
	Began  int64 `json:"began"` // when this page began to look
	Lost   int   `json:"lost"`  // in the last hour
	Broken int   `json:"broken"`

	losses  []lossText
	version int // of losses
}

// tell returns what the list shows, with the losses of before if these are the
// same.
func (h *history) tell(before *told, now time.Time) *told {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := &told{Began: h.began, version: h.lost.version}
	t.Lost, t.Broken = h.lost.count(now)
	if before != nil && before.version == t.version {
		t.losses = before.losses
	} else {
		t.losses = h.lost.texts()
	}
	return t
}

// former returns who had a name in the last hour, the last one first, and since
// when this page looks: at least since.
func (h *history) former(s subject, since int64, now time.Time) (all []formerText, began int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.began != 0 {
		since = min(since, h.began)
	}
	all = []formerText{} // the scripts count them
	for _, e := range h.past.of(s, now) {
		all = append(all, e.wire())
	}
	return all, since
}

// find returns the names that have ended, and whose hashes begin so.
func (h *history) find(hash string) (found []subject) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s, e := range h.past.names {
		f := e.Value.(*former) //nolint:forcetypeassert // there is nothing else in it
		if hashBegins(f.hash, hash) {
			found = append(found, s)
		}
	}
	for i := range h.lost.all {
		if e := &h.lost.all[i]; hashBegins(e.hash, hash) {
			found = append(found, e.subject)
		}
	}
	return found
}

// looked says for how long this page looks, up to what it keeps.
func (h *history) looked(now time.Time) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.began == 0 {
		return spell(0)
	}
	return spell(min(now.Sub(time.UnixMilli(h.began)), pastFor))
}
