package topology

import (
	"cmp"
	"net"
	"strconv"

	"github.com/redis/rueidis"
)

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
