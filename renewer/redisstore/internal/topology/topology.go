// Package topology knows which server of a Redis cluster serves which slot, so
// that requests to different servers can travel apart.
//
// What it says is a hint. The client sends each request to the right server
// even if the hint is wrong; then that request only travels together with those
// to another server. So asking it never waits and never fails, and it learns
// behind the back of its callers.
package topology

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

const (
	// A topology that was right may have changed without any request failing,
	// since the client follows the servers' redirections; so it is asked for
	// again after this time.
	maxAge = time.Minute
	// After a request that failed it is asked for at once, but no more often
	// than this.
	pause = time.Second
	// askTimeout is how long one server may take to tell it, until the next is
	// asked.
	askTimeout = 300 * time.Millisecond
)

// Topology is what is known of one cluster. It may be used concurrently.
type Topology struct {
	addrs func() []string // of the servers that the client knows, in an order that varies
	slots func(ctx context.Context, addr string) (rueidis.RedisMessage, error)

	changed func() // may be nil
	now     atomic.Pointer[layout]
	life    context.Context // after its end the servers are asked no more

	mu    sync.Mutex
	asked time.Time // when it was last asked for
	busy  bool      // whether Review is having it asked for
}

// New returns a topology of which nothing is known yet. It asks the servers of
// a client, in the background until life ends.
func New(life context.Context, client rueidis.Client) *Topology {
	return &Topology{
		life: life,
		addrs: func() []string {
			nodes := client.Nodes()
			addrs := make([]string, 0, len(nodes))
			for addr := range nodes {
				addrs = append(addrs, addr)
			}
			return addrs
		},
		slots: func(ctx context.Context, addr string) (rueidis.RedisMessage, error) {
			node := client.Nodes()[addr]
			if node == nil {
				return rueidis.RedisMessage{}, errUnknownServer
			}
			return node.Do(ctx, node.B().ClusterSlots().Build().ToPipe()).ToMessage()
		},
	}
}

var errUnknownServer = errors.New("the client does not know the server")

// OnChange has f called each time that a server has told the topology. It must
// be called before anything is asked.
func (t *Topology) OnChange(f func()) { t.changed = f }

// Shard returns the number of the primary that serves a slot, from 0; 0 for all
// slots while nothing is known. A primary keeps its number for as long as it
// serves any slot.
func (t *Topology) Shard(slot uint16) int {
	now := t.now.Load()
	if now == nil {
		return 0
	}
	return int(now.shards[slot])
}

// Addr returns the address of the primary that serves a slot, as the client
// names it; "" while nothing is known.
func (t *Topology) Addr(slot uint16) string {
	now := t.now.Load()
	if now == nil {
		return ""
	}
	return now.addrs[now.shards[slot]]
}

// Primaries returns the addresses of all primaries that serve slots, as the
// client names them; none while nothing is known.
func (t *Topology) Primaries() (addrs []string) {
	if now := t.now.Load(); now != nil {
		for _, addr := range now.addrs {
			if addr != "" {
				addrs = append(addrs, addr)
			}
		}
	}
	return addrs
}

// Review has the topology asked for anew in the background if it is old, or if
// a request has failed: then it may have changed.
func (t *Topology) Review(failed bool) {
	after := maxAge
	if failed || t.now.Load() == nil {
		after = pause
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.busy || time.Since(t.asked) < after || t.life.Err() != nil {
		return
	}
	t.busy = true
	go func() {
		t.Learn(t.life)
		t.mu.Lock()
		t.busy = false
		t.mu.Unlock()
	}()
}

// Learn asks the servers, one after the other, and returns when one has told,
// or when all have failed, or when ctx ends. It does not wait for a slow one:
// the client may have to dial that, which ends with the context of the first
// caller who needs it, and not with ours.
func (t *Topology) Learn(ctx context.Context) {
	t.mu.Lock()
	t.asked = time.Now()
	t.mu.Unlock()
	addrs := t.addrs()
	told := make(chan bool, len(addrs))
	next := time.NewTicker(askTimeout)
	defer next.Stop()
	asked := 0
	for _, addr := range addrs {
		go func() { told <- t.LearnFrom(ctx, addr) }()
		asked++
		next.Reset(askTimeout)
		select {
		case ok := <-told:
			if ok {
				return
			}
			asked--
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
	for ; asked > 0; asked-- {
		select {
		case ok := <-told:
			if ok {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// LearnFrom asks one server, for 300 ms at most, and reports whether it has
// told.
func (t *Topology) LearnFrom(ctx context.Context, addr string) bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	reply, err := t.slots(ctx, addr)
	if err != nil {
		return false
	}
	now, ok := readLayout(reply, addr, t.now.Load())
	if ok {
		t.now.Store(now)
		if t.changed != nil {
			t.changed()
		}
	}
	return ok
}

// Slots is how many hash slots a cluster has.
const Slots = 16384

// Slot returns the slot of all keys and channels that have a hash tag, by the
// CRC-16 that Redis Cluster uses. Source: the Redis Cluster specification,
// appendix A (XMODEM: polynomial 0x1021, initial value 0).
func Slot(tag string) uint16 {
	crc := uint16(0)
	for i := range len(tag) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return crc % Slots
}

// SlotOf returns the slot of a key or a channel. Its hash tag is what its first
// pair of braces encloses; without such a pair, or with an empty one, it is the
// whole.
func SlotOf(key string) uint16 {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return Slot(tag)
		}
	}
	return Slot(key)
}

// TagOf returns a hash tag that is in a slot: the smallest number that is. It
// is the same in every process.
func TagOf(slot uint16) string { return strconv.FormatUint(uint64(tags()[slot%Slots]), 10) }

// tags are the hash tags of all slots, made when the first is needed: some ms
// of work.
var tags = sync.OnceValue(func() *[Slots]uint32 {
	var all [Slots]uint32
	var found [Slots]bool
	for tag, left := uint32(0), Slots; left > 0; tag++ {
		if slot := Slot(strconv.FormatUint(uint64(tag), 10)); !found[slot] {
			all[slot], found[slot] = tag, true
			left--
		}
	}
	return &all
})

var crcTable = makeCRCTable()

func makeCRCTable() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			crc <<= 1
			if carry {
				crc ^= 0x1021
			}
		}
		table[i] = crc
	}
	return table
}

// layout is which primary serves which slot, as one server told. It never
// changes.
type layout struct {
	shards [Slots]uint16 // by slot: an index into addrs
	// of the primaries, as the client names them; "" for numbers that are free
	// again
	addrs []string
}

// readLayout reads the reply of CLUSTER SLOTS from the server on addr.
// Primaries that last knows keep their number. It returns false for a reply of
// another form, which no cluster gives.
func readLayout(reply rueidis.RedisMessage, addr string, last *layout) (*layout, bool) {
	rows, err := reply.ToArray()
	if err != nil || len(rows) == 0 || len(rows) > Slots {
		return nil, false
	}
	type span struct {
		first, last int64
		addr        string
	}
	spans, present := make([]span, len(rows)), make(map[string]bool)
	for i := range rows {
		fields, err := rows[i].ToArray()
		if err != nil || len(fields) < 3 {
			return nil, false
		}
		first, err0 := fields[0].AsInt64()
		last, err1 := fields[1].AsInt64()
		primary, ok := readEndpoint(fields[2], addr)
		if err := cmp.Or(err0, err1); err != nil || !ok || first < 0 || first > last ||
			last >= Slots {
			return nil, false
		}
		spans[i] = span{first, last, primary}
		present[primary] = true
	}
	l := &layout{}
	number := make(map[string]uint16, len(present))
	if last != nil {
		l.addrs = make([]string, len(last.addrs))
		for n, a := range last.addrs {
			if present[a] {
				l.addrs[n], number[a] = a, uint16(n)
			}
		}
	}
	for _, s := range spans {
		n, ok := number[s.addr]
		if !ok {
			n = l.add(s.addr)
			number[s.addr] = n
		}
		for slot := s.first; slot <= s.last; slot++ {
			l.shards[slot] = n
		}
	}
	return l, true
}

// add gives a primary the lowest number that is free, so that numbers
// stay low however often servers come and go.
func (l *layout) add(addr string) uint16 {
	for n, a := range l.addrs {
		if a == "" {
			l.addrs[n] = addr
			return uint16(n)
		}
	}
	l.addrs = append(l.addrs, addr)
	return uint16(len(l.addrs) - 1)
}

// readEndpoint reads a server's address as the client does: an empty host is
// that of the server that tells.
func readEndpoint(node rueidis.RedisMessage, teller string) (addr string, ok bool) {
	fields, err := node.ToArray()
	if err != nil || len(fields) < 2 {
		return "", false
	}
	port, err := fields[1].AsInt64()
	if err != nil {
		return "", false
	}
	host, _ := fields[0].ToString() // null: unknown, the same as empty
	if host == "" {
		if host, _, err = net.SplitHostPort(teller); err != nil {
			return "", false
		}
	}
	return net.JoinHostPort(host, strconv.FormatInt(port, 10)), true
}
