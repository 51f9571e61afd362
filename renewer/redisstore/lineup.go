package redisstore

import (
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

const (
	// turnTime is how long the first in line has to claim a lease that was given to it: what one that has died meanwhile costs the others.
	turnTime = time.Second
	// leastLine is how long a line of waiters lives at least without anybody's asking.
	leastLine = time.Minute
)

// shardArgs are the last arguments of renew.lua and release.lua on a cluster.
var shardArgs = []string{toShard}

// lineTTL is how long a line lives: waiters ask anew when a lease should have lapsed, and every few seconds.
func lineTTL(ttl time.Duration) string { return decimal(max(2*ttl, leastLine).Milliseconds()) }

// lineup has the owner tokens that stand in a line on the server, or will when they ask again, so that a message for one of them is
// recognized. Whoever finds a lock free has not gone to that expense: owners enter when they have been refused once, or when the name
// was watched here a moment ago.
type lineup struct {
	n      atomic.Int64
	mu     sync.Mutex
	owners map[string]struct{}
}

func (l *lineup) add(owner string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owners == nil {
		l.owners = make(map[string]struct{})
	}
	l.owners[owner] = struct{}{}
	l.n.Store(int64(len(l.owners)))
}

func (l *lineup) forget(owner string) {
	if l.n.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.owners, owner)
	l.n.Store(int64(len(l.owners)))
}

func (l *lineup) has(owner string) bool {
	if l.n.Load() == 0 {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.owners[owner]
	return ok
}

// settle books the answers to claims: who has the lock needs no place any more, and who was refused asks for one the next time.
func (l *lineup) settle(claims []renewer.Claim, grants []renewer.Grant) {
	for i := range claims {
		switch {
		case !claims[i].Queue:
		case grants[i].Status == renewer.Mine:
			l.forget(claims[i].Owner)
		case grants[i].Status == renewer.Taken:
			l.add(claims[i].Owner)
			grants[i].Queued = true // as good as: it is to be released when it is not wanted any more
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

// turn reads a message of release.lua: empty, or the owner tokens of the first and the second in line.
func (l *lineup) turn(message string) whose {
	first, second, ok := strings.Cut(message, "\n")
	switch {
	case !ok:
		return anybodys
	case l.has(first):
		return ours
	case l.has(second):
		return next
	default:
		return theirs
	}
}
