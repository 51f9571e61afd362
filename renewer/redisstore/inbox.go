package redisstore

import (
	"crypto/rand"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/subscription"
)

const (
	// leastTurn is how long a place has at least to claim a lease that is given to it. One that has
	// died meanwhile costs the others as long.
	leastTurn = time.Second
	// mostTurn bounds that where the server is far away.
	mostTurn = 32 * time.Second
	// leastLine is how long a line of places lives at least when none of them asks.
	leastLine = time.Minute
	// longWait is how long a name is waited for before those in its line listen to what is for all
	// as well: the script that finds the line lost (FLUSHALL, DEL, eviction) knows of no place to
	// tell. That costs a subscription and a question, so that short waits do without.
	longWait = time.Second
)

// lineTTL is how long a line lives: waiters ask anew when a lease
// should have lapsed, and every few seconds.
func lineTTL(ttl time.Duration) string { return decimal(max(2*ttl, leastLine).Milliseconds()) }

// inbox is where a store hears from the server that the turn of one of its places has come, or that
// a lock is free. It may be used concurrently.
//
// A place stands in a line only once somebody here could hear that its turn has come: a claim
// presents it as soon as the mailbox is open, and before that it presents none. When the mailbox
// opens, and opens again after a failure, all who wait ask.
type inbox struct {
	prefix     string
	id         string // by which the places of this store name it
	cluster    bool
	single     string // the channel of all names, without a cluster
	subscriber *subscription.Subscriber
	able       atomic.Bool  // the server lets places stand in line; once true, always
	wanted     atomic.Bool  // a claim has asked for a place; once true, always
	trip       atomic.Int64 // about how long a claim took lately, or longer
	longWait   time.Duration

	open      atomic.Int64 // mailboxes, those that are being opened included
	mu        sync.Mutex
	names     map[string]*waiting // that this process wants, by lock
	places    map[uint64]*place   // that it has on the server, or may have, by number
	mailboxes map[string]*mailbox // by channel
}

// waiting is what waits here for one lock. It goes when it has neither watches nor places.
type waiting struct {
	name    string
	watches []*nameWatch // replaced, never changed, so that they can be called without the mutex
	places  int
	missed  bool        // a turn came while there was no watch
	outside bool        // its last claim got no place, or it has made none
	mailbox *mailbox    // nil without watches
	long    bool        // it is waited for since longWait
	soon    *time.Timer // sets long; nil without watches, and on a cluster
}

// place is a rank in a lock's line on the server.
type place struct {
	of    *waiting
	turn  time.Duration // that it asks for
	since string        // when it came, in us of the server's clock; "" as long as that is unknown
}

// nameWatch is one caller of Store.Watch.
type nameWatch struct {
	wake    func(error)
	stopped atomic.Bool
	told    atomic.Bool // has heard an error since its last wake-up, and needs no second
	deafen  func()      // ends what it hears of what is for all; nil without. Guarded by inbox.mu
}

func newInbox(prefix string, cluster bool) *inbox {
	id := rand.Text()
	return &inbox{
		prefix: prefix, id: id, cluster: cluster, single: prefix + "{" + id + "}:inbox",
		longWait: longWait,
		names:    make(map[string]*waiting), places: make(map[uint64]*place),
		mailboxes: make(map[string]*mailbox),
	}
}

// enable notes that the server lets places stand in line, also for those who wait already.
func (b *inbox) enable() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.able.Store(true)
	for _, w := range b.names {
		if len(w.watches) > 0 {
			b.receive(w)
		}
	}
}

// present notes the places of claims that are about to be sent, where a mailbox is open. It reports
// whether any may be.
func (b *inbox) present(claims []renewer.Claim) bool {
	if b.open.Load() == 0 {
		if !b.wanted.Load() && slices.ContainsFunc(claims, func(c renewer.Claim) bool {
			return c.Place != 0
		}) {
			b.wanted.Store(true)
		}
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range claims {
		c := &claims[i]
		if c.Place == 0 {
			continue
		}
		if p := b.places[c.Place]; p != nil {
			if p.since != "" { // acquire.lua takes the shorter turn out of the line
				p.turn = max(p.turn, b.turn())
			}
			continue
		}
		if m := b.mailboxes[b.channel(c.Name)]; m == nil || !m.open {
			continue
		}
		w := b.waitingFor(c.Name)
		w.places++
		b.places[c.Place] = &place{of: w, turn: b.turn()}
	}
	return true
}

// turn is how long a place has to claim a lease: longer where the server is far away, in powers of
// two.
func (b *inbox) turn() time.Duration {
	trip := time.Duration(b.trip.Load())
	turn := leastTurn
	for turn < leastTurn/2+2*trip && turn < mostTurn {
		turn *= 2
	}
	return turn
}

// took notes how long a claim took.
func (b *inbox) took(d time.Duration) {
	last := b.trip.Load()
	b.trip.Store(max(int64(d), last-last/16))
}

// text is how a claim presents its place, "" for none.
func (b *inbox) text(number uint64) string {
	if number == 0 || b.open.Load() == 0 {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.places[number]
	if p == nil {
		return ""
	}
	text := strconv.FormatUint(number, 10) + " " + decimal(p.turn.Milliseconds())
	if p.since != "" {
		text += " " + p.since
	}
	return text
}

// settle notes the answers to claims. From then on it has the places that the server has in a
// line, or may have, and no others: no caller gives up one that is a lease now, or got no rank.
func (b *inbox) settle(claims []renewer.Claim, grants []renewer.Grant) {
	if !b.able.Load() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range claims {
		number, g := claims[i].Place, &grants[i]
		p := b.places[number]
		if number == 0 || p == nil {
			continue
		}
		if g.Status == renewer.StatusTaken {
			if p.of.outside = !g.Queued; p.of.outside {
				p.since = ""
			}
			b.listen(p.of)
		}
		unanswered := g.Status == renewer.StatusUnknown && !g.Unsent
		if g.Status == renewer.StatusHeld || p.since == "" && !unanswered {
			b.remove(number)
		}
	}
}

// came notes since when a place stands in the line.
func (b *inbox) came(number uint64, since int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.places[number]; p != nil && p.since == "" {
		p.since = decimal(since)
	}
}

// leave forgets the places that holds give up.
func (b *inbox) leave(holds []renewer.Hold) {
	if !b.able.Load() {
		return
	}
	for i := range holds {
		if holds[i].Place != 0 {
			b.mu.Lock()
			b.remove(holds[i].Place)
			b.mu.Unlock()
		}
	}
}

// remove forgets a place. Under mu.
func (b *inbox) remove(number uint64) {
	if p := b.places[number]; p != nil {
		delete(b.places, number)
		p.of.places--
		b.tidy(p.of)
	}
}

// waitingFor is what waits for a lock. Under mu.
func (b *inbox) waitingFor(name string) *waiting {
	w := b.names[name]
	if w == nil {
		w = &waiting{name: name}
		b.names[name] = w
	}
	return w
}

// tidy forgets what nothing waits for. Under mu.
func (b *inbox) tidy(w *waiting) {
	if w.places == 0 {
		w.missed = false
		if len(w.watches) == 0 {
			delete(b.names, w.name)
		}
	}
}

// watch calls wake when a lock may be free: see [Store.Watch].
func (b *inbox) watch(name string, wake func(error)) (stop func()) {
	one := &nameWatch{wake: wake}
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.waitingFor(name)
	w.watches = append(slices.Clone(w.watches), one)
	b.receive(w)
	missed := w.missed
	w.missed = false
	switch {
	case w.mailbox == nil: // no claim here wants a place
		w.outside = true
	case w.places == 0:
		// Its claim got no place, since the mailbox was not open: that may be open by now.
		missed = w.mailbox.open
	}
	if missed {
		go one.call(nil) // not from here: the caller may hold what wake needs
	}
	if w.soon == nil && !b.cluster {
		w.soon = time.AfterFunc(b.longWait, func() { b.waitsLong(w) })
	}
	b.listen(w)
	return func() { b.stop(w, one) }
}

func (b *inbox) stop(w *waiting, one *nameWatch) {
	if one.stopped.Swap(true) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
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
		b.leaveMailbox(w.mailbox)
		w.mailbox = nil
	}
	if w.soon != nil {
		w.soon.Stop()
		w.soon = nil
	}
	w.outside, w.long = false, false
	b.tidy(w)
}

// waitsLong notes that a lock has been waited for since longWait.
func (b *inbox) waitsLong(w *waiting) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.long = w.soon != nil // it may have ended at this moment
	b.listen(w)
}

// listen has the watches of a lock hear what is for all, where no place may be told: on a cluster,
// where its channel moves with the slot; where the claim got none; and where its line may have been
// lost meanwhile. Under mu.
func (b *inbox) listen(w *waiting) {
	if !b.cluster && !w.outside && !w.long {
		return
	}
	for _, one := range w.watches {
		if one.deafen == nil {
			one.deafen = b.subscriber.Watch(freedChannel(b.prefix, w.name),
				func(_ string, err error) { one.call(err) })
		}
	}
}

// wakeAll tells all watches of some locks.
func (b *inbox) wakeAll(err error, of func(*waiting) bool) {
	var watches []*nameWatch
	b.mu.Lock()
	for _, w := range b.names {
		if of(w) {
			watches = append(watches, w.watches...)
		}
	}
	b.mu.Unlock()
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

// close ends what lingers.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.mailboxes {
		if m.lingers != nil {
			m.lingers.Stop()
		}
	}
}
