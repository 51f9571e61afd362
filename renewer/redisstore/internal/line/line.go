// Package line has this process's places in the lines that locks have on the
// server, and hears when the claim of one was granted, when one is to ask, or
// that a lock is free. It knows names, numbers of places and channels, and
// sends no request about a lock. What a line and a place are on the server is
// said in tell.lua, and what a turn is, of a limit, in slots.lua.
//
// [Line] alone keeps what is known of places, under one mutex:
//
//	a caller asks           Present notes its place, if this process could hear of its turn; and
//	                        what was heard of the lock so far is known to it
//	the server has refused  Refused: the place stands in the line since then, or has no rank
//	the lock is its own     Leave: the place is a lease now
//	the caller has left     GiveUp
//	no answer               the place may be in the line, and is kept until it is given up
//	a grant was heard of    Given: it answers the next claim from the place, which is a lease now
//	one was given away      Gave: the process that got it may be stuck, so the server is asked to
//	                        look when it is over, or a turn is
//
// A place stands in a line only once this process could hear that its turn has
// come: a claim presents it as soon as the mailbox is open, and none before.
// When the mailbox opens, and opens again after a failure, all who wait ask: a
// message may have passed unheard.
//
//	line.go     places
//	names.go    the names that callers here wait for, and whom to wake
//	mailbox.go  the channels by which this process alone hears of grants and turns; those that
//	            its releases have given; and what others are shown of who waits here
package line

import (
	"cmp"
	"crypto/rand"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/store"
)

const (
	// leastTurn is how long a place has at least to claim a slot that is kept
	// for it. One that has died meanwhile costs the others as long.
	leastTurn = time.Second
	// mostTurn bounds that where the server is far away.
	mostTurn = 32 * time.Second
)

// Channels is what a process listens to: see package subscription.
type Channels interface {
	Watch(channel string, hear func(message string, err error)) (stop func())
	Watching() bool
	Mark(channel string) bool
}

// Config is what a [Line] is made of.
type Config struct {
	Prefix     string
	Cluster    bool
	Key        func(name contract.Name) string // of a lock's lease
	Subscriber Channels
	// Check has the server pass a lease on if it has lapsed.
	Check func(name contract.Name)
	// LongWait is how long a name is waited for before those in its line listen
	// to what is for all as well, 1 s by default: the script that finds the
	// line lost (FLUSHALL, DEL, eviction) knows of no place to tell. That costs
	// a subscription and a question, so short waits do without.
	LongWait time.Duration
	// Show tells other processes of places that have stood in line for
	// LongWait. It reports false if that is not to be tried again. nil: they
	// are not told.
	Show func([]Shown) bool
}

// Line keeps the places of one store. It may be used concurrently.
type Line struct {
	Config

	id        string       // by which the places of this store name it
	able      atomic.Bool  // the server lets places stand in line; once true, always
	wanted    atomic.Bool  // a claim has asked for a place; once true, always
	trip      atomic.Int64 // about how long a claim took lately, or longer
	single    string       // the channel of all names, without a cluster
	open      atomic.Int64 // mailboxes, those that are being opened included
	mu        sync.Mutex
	names     map[contract.Name]*waiting // that this process wants, by lock
	places    map[uint64]*place          // that it has on the server, or may have, by number
	mailboxes map[string]*mailbox        // by channel
	given     map[contract.Name]*time.Timer
	faces     faces
	closed    bool
}

// place is a rank in a lock's line on the server.
type place struct {
	of    *waiting
	first store.Claim   // from it
	text  string        // as it stands in a lock's line: see tell.lua
	given store.Grant   // of first, as a message has told
	turn  time.Duration // that it asks for, of a limit
	since string        // when it came, in us of the server's clock; "0" as long as that is unknown
	who   string        // who waits there, as others are shown
	came  time.Time     // by the clock of this process
	faced bool          // it is among faces
	told  bool          // its turn has come, and no claim from it was sent since
	shown bool          // others have been told
}

// New returns a line without places. No place stands in line until Enable is
// called.
func New(c Config) *Line {
	id := rand.Text()
	c.LongWait = cmp.Or(c.LongWait, time.Second)
	return &Line{
		Config: c, id: id, single: c.Prefix + "{" + id + "}:inbox",
		names: make(map[contract.Name]*waiting), places: make(map[uint64]*place),
		mailboxes: make(map[string]*mailbox), given: make(map[contract.Name]*time.Timer),
	}
}

// ID is by what the places of this store name it on the server.
func (l *Line) ID() string { return l.id }

// Able reports whether places stand in line.
func (l *Line) Able() bool { return l.able.Load() }

// Enable notes that the server lets places stand in line, also for those who
// wait already.
func (l *Line) Enable() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.able.Store(true)
	for _, w := range l.names {
		if len(w.watches) > 0 {
			l.receive(w)
		}
	}
}

// Present notes the place of a claim that is about to be sent, where a mailbox
// is open, and who asks. asks says that the place is to ask when its turn
// comes, not to be granted its claim. It reports whether the claim may present
// it.
func (l *Line) Present(c *store.Claim, who string, asks bool) bool {
	name, number := contract.Claimed(c), c.Place
	if l.Subscriber.Watching() {
		l.Subscriber.Mark(l.freedChannel(name))
	}
	if l.open.Load() == 0 && l.wanted.Load() {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.wanted.Swap(true) { // those who wait already have asked for none yet
		for _, w := range l.names {
			if len(w.watches) > 0 {
				l.receive(w)
			}
		}
	}
	if p := l.places[number]; p != nil {
		if p.since != "" && p.since != "0" { // the script takes the shorter turn out of the line
			p.turn = max(p.turn, l.turn())
		}
		p.shown = p.shown && p.who == who
		p.who = who
		p.tell(false)
		return true
	}
	if m := l.mailboxes[l.channel(name)]; m == nil || !m.open {
		return false
	}
	w := l.waitingFor(name)
	w.places++
	p := &place{of: w, first: *c, turn: l.turn(), who: who, came: time.Now()}
	if !name.Limit {
		ttl, flag := c.TTL, ""
		if asks { // for as long it is kept for it
			ttl, flag = min(ttl, p.turn), " "
		}
		p.text = l.named(number) + c.Owner + " " + schema.Decimal(ttl.Milliseconds()) + flag
		p.text += schema.Separator + who
		if c.Holder.Trace != "" {
			p.text += schema.Separator + schema.Part(c.Holder.Trace)
		}
	}
	l.places[number] = p
	return true
}

// named is how a place begins as it stands in a lock's line.
func (l *Line) named(number uint64) string {
	return strconv.FormatUint(number, 10) + " " + l.id + " "
}

// Given answers the first claim from a place, if a message has told that it has
// been granted, for a later claim that is like it. Any other is to be sent.
func (l *Line) Given(c *store.Claim) (g store.Grant, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[c.Place]
	if p == nil || p.given.Status != store.StatusHeld {
		return g, false
	}
	g, p.given = p.given, store.Grant{}
	first := &p.first
	if c.Owner != first.Owner || c.TTL != first.TTL || c.Manual || c.Newness != first.Newness ||
		c.Holder.Operation != first.Holder.Operation || c.Holder.Trace != first.Holder.Trace {
		return store.Grant{}, false
	}
	l.remove(c.Place)
	return g, true
}

// Heard reports whether a message has told of a grant to a place.
func (l *Line) Heard(number uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[number]
	return p != nil && p.given.Status == store.StatusHeld
}

// turn is how long a place has to claim a slot: longer where the server is far
// away, in powers of two.
func (l *Line) turn() time.Duration {
	trip := time.Duration(l.trip.Load())
	turn := leastTurn
	for turn < leastTurn/2+2*trip && turn < mostTurn {
		turn *= 2
	}
	return turn
}

// Took notes how long a claim took, by which turns are as long as claims from
// here need.
func (l *Line) Took(d time.Duration) {
	last := l.trip.Load()
	l.trip.Store(max(int64(d), last-last/16))
}

// Text is how a claim presents a place, as acquire.lua and slots_acquire.lua
// have it: as it stands in the line, or its number and its turn in ms, and when
// it came in us; "" for none.
func (l *Line) Text(number uint64) string {
	if number == 0 || l.open.Load() == 0 {
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[number]
	if p == nil {
		return ""
	}
	since := p.since
	if p.since == "" {
		p.since = "0"
	}
	if p.text != "" {
		return since + " " + p.text
	}
	text := strconv.FormatUint(number, 10) + " " + schema.Decimal(p.turn.Milliseconds())
	if since != "" && since != "0" {
		text += " " + since
	}
	return text
}

// Leaving is how a release gives up a place: as it stands in a lock's line, or
// as it begins there if it was given up before; and the number of a limit's.
func (l *Line) Leaving(h *store.Hold) string {
	if h.Limit {
		return strconv.FormatUint(h.Place, 10)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.places[h.Place]; p != nil {
		return p.text
	}
	return l.named(h.Place)
}

// Came notes since when a place stands in the line.
func (l *Line) Came(number uint64, since int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.places[number]; p != nil {
		p.since = strconv.FormatInt(since, 10)
		l.face(number, p)
	}
}

// Refused notes that another has the lock, and whether the place stands in the
// line.
func (l *Line) Refused(number uint64, queued bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.places[number]
	if p == nil {
		return
	}
	p.of.outside = !queued
	l.listen(p.of)
	if !queued {
		l.remove(number)
	}
}

// Unranked forgets a place that an answer gave no rank, unless it had one: no
// caller gives it up.
func (l *Line) Unranked(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.places[number]; p != nil && (p.since == "" || p.since == "0") {
		l.remove(number)
	}
}

// Leave forgets a place that is a lease now.
func (l *Line) Leave(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(number)
}

// GiveUp forgets a place that was given up. Those who have begun to wait for
// the lock meanwhile ask again: they relied on it, if they had asked without
// one.
func (l *Line) GiveUp(number uint64) {
	if number == 0 || !l.able.Load() {
		return
	}
	var watches []*nameWatch
	l.mu.Lock()
	if p := l.places[number]; p != nil {
		l.remove(number)
		if p.of.places == 0 {
			watches = p.of.watches
		}
	}
	l.mu.Unlock()
	callAll(watches, nil)
}

// remove forgets a place. Under mu.
func (l *Line) remove(number uint64) {
	if p := l.places[number]; p != nil {
		delete(l.places, number)
		p.tell(false)
		p.of.places--
		l.tidy(p.of)
	}
}

// tell notes whether the place's turn has come, for callers who do not watch yet.
// Under mu.
func (p *place) tell(told bool) {
	switch {
	case told && !p.told:
		p.of.told++
	case !told && p.told:
		p.of.told--
	}
	p.told = told
}

// Counts is how many names are waited for or have places, and how many places
// there are.
func (l *Line) Counts() (names, places int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.names), len(l.places)
}

// Close ends what lingers, and looks after no turn any more.
func (l *Line) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, m := range l.mailboxes {
		if m.lingers != nil {
			m.lingers.Stop()
		}
	}
	for _, timer := range l.given {
		timer.Stop()
	}
	if l.faces.timer != nil {
		l.faces.timer.Stop()
	}
}
