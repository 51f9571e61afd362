package redisstore

import (
	"crypto/sha1" //nolint:gosec // see placeOf
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/subscription"
)

const (
	// maxMessage is the length of a message that names two places, in bytes.
	maxMessage = 2*2*sha1.Size + 1
	// turnTime is how long the first in line has to claim a lease that
	// was given to it: what one that has died meanwhile costs the others.
	turnTime = time.Second
	// leastLine is how long a line of waiters lives at least when no waiter asks.
	leastLine = time.Minute
)

// lineTTL is how long a line lives: waiters ask anew when a lease
// should have lapsed, and every few seconds.
func lineTTL(ttl time.Duration) string { return decimal(max(2*ttl, leastLine).Milliseconds()) }

// place is an owner token as messages name it: by its SHA-1, since a user who may listen need not
// be one who may free a lease.
type place [sha1.Size]byte

func placeOf(owner string) place {
	//nolint:gosec // of 128 random bits; scripts of Redis have no other
	return sha1.Sum([]byte(owner))
}

// readPlace reads what release.lua writes of a place.
func readPlace(text string) (p place, ok bool) {
	if len(text) != hex.EncodedLen(len(p)) {
		return p, false
	}
	_, err := hex.Decode(p[:], []byte(text))
	return p, err == nil
}

// waiterSet has the places of this store's owners who stand in a line on the server, or
// will when they ask again, so that a message for one of them is recognized. An owner
// that finds its lock free is not in it: owners enter when they have been refused once,
// or when the lock's channel was watched here a moment ago. It may be used concurrently.
type waiterSet struct {
	able   atomic.Bool  // the server lets waiters stand in line; once true, always
	n      atomic.Int64 // places
	mu     sync.Mutex
	places map[place]struct{}
}

// enable notes that the server lets waiters stand in line.
func (w *waiterSet) enable() { w.able.Store(true) }

// enabled reports whether the server does so, as far as is known.
func (w *waiterSet) enabled() bool { return w.able.Load() }

func (w *waiterSet) add(owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.places == nil {
		w.places = make(map[place]struct{})
	}
	w.places[placeOf(owner)] = struct{}{}
	w.n.Store(int64(len(w.places)))
}

func (w *waiterSet) forget(owner string) {
	if w.n.Load() == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.places, placeOf(owner))
	w.n.Store(int64(len(w.places)))
}

func (w *waiterSet) has(owner string) bool { return w.n.Load() != 0 && w.hasPlace(placeOf(owner)) }

func (w *waiterSet) hasPlace(p place) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.places[p]
	return ok
}

// settle notes the answers to claims: an owner that has the lock needs no place any more, and one
// that was refused asks for a place the next time.
func (w *waiterSet) settle(claims []renewer.Claim, grants []renewer.Grant) {
	if !w.enabled() {
		return
	}
	for i := range claims {
		switch {
		case !claims[i].Queue:
		case grants[i].Status == renewer.StatusHeld:
			w.forget(claims[i].Owner)
		case grants[i].Status == renewer.StatusTaken:
			w.add(claims[i].Owner)
			// As good as: it is to be released when it is not wanted any more.
			grants[i].Queued = true
		}
	}
}

// leave forgets the owners of holds, which want the lock no more.
func (w *waiterSet) leave(holds []renewer.Hold) {
	if !w.enabled() {
		return
	}
	for i := range holds {
		w.forget(holds[i].Owner)
	}
}

// audience reads a message of release.lua: empty, or the places of the
// first and, if there is one, the second in line. Any other message,
// such as one of an earlier version, may be for every waiter.
func (w *waiterSet) audience(message string) subscription.Audience {
	if len(message) > maxMessage {
		return subscription.AudienceAll
	}
	one, other, ok := strings.Cut(message, " ")
	first, known := readPlace(one)
	if !ok || !known {
		return subscription.AudienceAll
	}
	second, more := readPlace(other)
	switch {
	case other != "" && !more:
		return subscription.AudienceAll
	case w.hasPlace(first):
		return subscription.AudienceUs
	case more && w.hasPlace(second):
		return subscription.AudienceUsLater // in case that the first one is dead
	default:
		return subscription.AudienceOthers
	}
}
