package wire

import (
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// One address may lead to another server after a fail-over: a Service of
// Kubernetes, a managed primary endpoint, a proxy that looks for the primary.
// The former primary keeps its connections and refuses to write, and rueidis
// gives up none that answers. So connections that ClientOption has made are
// known by address here, and an answer that a replica alone gives ends them:
// whatever dials next finds the primary.

// hangUpPause is how long connections to an address are left alone after they
// were ended: a server that is a replica for good costs one dial in this time.
const hangUpPause = time.Second

var errHungUp = errors.New("redisstore: the connection is given up: the server at its other end " +
	"is a replica, and the address may lead to the primary by now")

// lines are the open connections of this process to one address.
type lines struct {
	open   map[*countedConn]struct{}
	hungUp time.Time // when they were last ended
}

var (
	byAddressMu sync.Mutex
	byAddress   = make(map[string]*lines)
)

// remember notes a connection to an address, until forget.
func remember(addr string, c *countedConn) {
	byAddressMu.Lock()
	defer byAddressMu.Unlock()
	l := byAddress[addr]
	if l == nil {
		l = &lines{open: make(map[*countedConn]struct{})}
		byAddress[addr] = l
	}
	l.open[c] = struct{}{}
}

func forget(addr string, c *countedConn) {
	byAddressMu.Lock()
	defer byAddressMu.Unlock()
	l := byAddress[addr]
	if l == nil {
		return
	}
	delete(l.open, c)
	if len(l.open) == 0 && time.Since(l.hungUp) > hangUpPause {
		delete(byAddress, addr)
	}
}

// Counts reports whether ClientOption has made the options of a client that has
// a connection.
func Counts(client rueidis.Client) bool {
	byAddressMu.Lock()
	defer byAddressMu.Unlock()
	for addr := range client.Nodes() {
		if byAddress[addr] != nil {
			return true
		}
	}
	return false
}

// HangUp ends the connections of this process to the server of a client that
// ClientOption has made the options of, once a second at most. Those of other
// clients to the same address end, too: it leads them astray as well. Requests
// under way fail, as when a server closes a connection.
//
// It returns at once, and does nothing for a client that dials by itself.
func HangUp(client rueidis.Client) {
	for addr := range client.Nodes() {
		for _, c := range hangUp(addr) {
			go c.hangUp() // TLS says goodbye first, for which a peer may let it wait
		}
	}
}

// hangUp returns the connections to end, none if that was done a moment ago.
func hangUp(addr string) (all []*countedConn) {
	byAddressMu.Lock()
	defer byAddressMu.Unlock()
	l := byAddress[addr]
	if l == nil || time.Since(l.hungUp) < hangUpPause {
		return nil
	}
	l.hungUp = time.Now()
	for c := range l.open {
		all = append(all, c)
	}
	return all
}

// hangUp closes the connection under the client, which hears of it when it
// reads or writes.
func (c *countedConn) hangUp() {
	c.spoilt.CompareAndSwap(nil, &errHungUp)
	_ = c.Conn.Close()
}
