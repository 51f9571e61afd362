// Package redisreply builds replies of a Redis server without one, for tests of
// what reads them. It is test code: no production package may import it.
package redisreply

import (
	"encoding/binary"
	"testing"

	"github.com/redis/rueidis"
)

// Reply is a reply in the form in which rueidis stores messages: a type, 8
// bytes of length or number, and the content.
type Reply []byte

// head returns the beginning of a reply.
func head(kind byte, n int64) Reply {
	return binary.BigEndian.AppendUint64([]byte{kind}, uint64(n))
}

// Number is an integer.
func Number(n int64) Reply { return head(':', n) }

// Text is a bulk string.
func Text(s string) Reply { return append(head('$', int64(len(s))), s...) }

// Fault is an error.
func Fault(s string) Reply { return append(head('-', int64(len(s))), s...) }

// Null is nil.
func Null() Reply { return head('_', 0) }

// List is an array.
func List(of ...Reply) Reply {
	r := head('*', int64(len(of)))
	for _, one := range of {
		r = append(r, one...)
	}
	return r
}

// Message returns the reply as the client hands it out.
func (r Reply) Message(tb testing.TB) rueidis.RedisMessage {
	tb.Helper()
	var m rueidis.RedisMessage
	if err := m.CacheUnmarshalView(append(make([]byte, 7), r...)); err != nil {
		tb.Fatal(err)
	}
	return m
}

// Any makes any reply out of any bytes, three deep at most, and returns the
// bytes that it did not need.
func Any(raw []byte) (r Reply, rest []byte) { return anyAt(raw, 0) }

func anyAt(raw []byte, depth int) (r Reply, rest []byte) {
	if len(raw) == 0 {
		return Null(), nil
	}
	kind, raw := raw[0], raw[1:]
	n := min(int(kind>>4), len(raw))
	switch kind % 6 {
	case 0:
		var eight [8]byte
		n = copy(eight[:], raw)
		return Number(int64(binary.LittleEndian.Uint64(eight[:]))), raw[n:]
	case 1:
		return Text(string(raw[:n])), raw[n:]
	case 2:
		return Fault(string(raw[:n])), raw[n:]
	case 3:
		if depth == 3 {
			return List(), raw
		}
		of := make([]Reply, n)
		for i := range of {
			of[i], raw = anyAt(raw, depth+1)
		}
		return List(of...), raw
	case 4:
		return head('#', int64(n)), raw
	default:
		return Null(), raw
	}
}
