package redisstore

import (
	"crypto/sha1" //nolint:gosec // see placeOf
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// maxMessage is the length of a message that names two places, in bytes.
	maxMessage = 2*2*sha1.Size + 1
	// turnTime is how long the first in line has to claim a lease that
	// was given to it: what one that has died meanwhile costs the others.
	turnTime = time.Second
	// leastLine is how long a line of waiters lives at least without anybody's asking.
	leastLine = time.Minute
)

// shardArgs are the last arguments of renew.lua and release.lua on a cluster.
var shardArgs = []string{toShard}

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

// lineup has the places of owners who stand in a line on the server, or will when they ask again,
// so that a message for one of them is recognized. Whoever finds a lock free has not gone to that
// expense: owners enter when they have been refused once, or when the name was watched here a
// moment ago.
type lineup struct {
	n      atomic.Int64
	mu     sync.Mutex
	places map[place]struct{}
}

func (l *lineup) add(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.places == nil {
		l.places = make(map[place]struct{})
	}
	l.places[placeOf(owner)] = struct{}{}
	l.n.Store(int64(len(l.places)))
}

func (l *lineup) forget(owner string) {
	if l.n.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.places, placeOf(owner))
	l.n.Store(int64(len(l.places)))
}

func (l *lineup) has(owner string) bool { return l.n.Load() != 0 && l.hasPlace(placeOf(owner)) }

func (l *lineup) hasPlace(p place) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.places[p]
	return ok
}

// settle books the answers to claims: who has the lock needs no place
// any more, and who was refused asks for one the next time.
func (l *lineup) settle(claims []renewer.Claim, grants []renewer.Grant) {
	for i := range claims {
		switch {
		case !claims[i].Queue:
		case grants[i].Status == renewer.StatusHeld:
			l.forget(claims[i].Owner)
		case grants[i].Status == renewer.StatusTaken:
			l.add(claims[i].Owner)
			// as good as: it is to be released when it is not wanted any more
			grants[i].Queued = true
		}
	}
}

// leave forgets those who want it no more.
func (l *lineup) leave(holds []renewer.Hold) {
	for i := range holds {
		l.forget(holds[i].Owner)
	}
}

// whose is whose turn a message tells of.
type whose uint8

const (
	anybodys whose = iota // the lock is free, or nobody knows
	ours
	next   // ours when the one whose turn it is does not come
	theirs // another store's
)

// turn reads a message of release.lua: empty, or the places of the first and, if there is one, the
// second in line. Whatever else is published, such as by an earlier version, may be anybody's.
func (l *lineup) turn(message string) whose {
	if len(message) > maxMessage {
		return anybodys
	}
	one, other, ok := strings.Cut(message, " ")
	first, known := readPlace(one)
	if !ok || !known {
		return anybodys
	}
	second, more := readPlace(other)
	switch {
	case other != "" && !more:
		return anybodys
	case l.hasPlace(first):
		return ours
	case more && l.hasPlace(second):
		return next
	default:
		return theirs
	}
}
