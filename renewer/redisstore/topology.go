package redisstore

import (
	"cmp"
	"net"
	"strconv"

	"github.com/redis/rueidis"
)

// topology is which server has which slot of a cluster, as CLUSTER SLOTS told. It never changes.
type topology struct {
	shards [slots]uint16 // by slot: an index into addrs
	// of the primaries, as the client names them; "" for numbers that are free again
	addrs []string
}

// readTopology reads the reply of CLUSTER SLOTS from the server on addr. Primaries
// that last knows keep their number. It returns false for a reply of another form:
// whatever is between us and the servers, it is no cluster that tells.
func readTopology(reply rueidis.RedisMessage, addr string, last *topology) (*topology, bool) {
	rows, err := reply.ToArray()
	if err != nil || len(rows) == 0 || len(rows) > slots {
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
			last >= slots {
			return nil, false
		}
		spans[i] = span{first, last, primary}
		present[primary] = true
	}
	t := &topology{}
	number := make(map[string]uint16, len(present))
	if last != nil {
		t.addrs = make([]string, len(last.addrs))
		for n, a := range last.addrs {
			if present[a] {
				t.addrs[n], number[a] = a, uint16(n)
			}
		}
	}
	for _, s := range spans {
		n, ok := number[s.addr]
		if !ok {
			n = t.add(s.addr)
			number[s.addr] = n
		}
		for slot := s.first; slot <= s.last; slot++ {
			t.shards[slot] = n
		}
	}
	return t, true
}

// add gives a primary the lowest number that is free, so that numbers
// stay low however often servers come and go.
func (t *topology) add(addr string) uint16 {
	for n, a := range t.addrs {
		if a == "" {
			t.addrs[n] = addr
			return uint16(n)
		}
	}
	t.addrs = append(t.addrs, addr)
	return uint16(len(t.addrs) - 1)
}

// readEndpoint reads a server's address as the client does: an empty
// host is that of the server that tells.
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
