package topology_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/redisreply"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
)

// Short names for the parts of replies.
var (
	number, text, fault = redisreply.Number, redisreply.Text, redisreply.Fault
	null, list          = redisreply.Null, redisreply.List
)

// slotRow is a row of CLUSTER SLOTS, with a replica that is of no interest.
func slotRow(first, last int64, host redisreply.Reply, port int64) redisreply.Reply {
	return list(number(first), number(last), list(host, number(port), text("id")),
		list(text("replica"), number(1), text("id")))
}

func TestLayout(t *testing.T) {
	t.Parallel()
	read := func(replies ...redisreply.Reply) ([]uint16, []string, bool) {
		var messages []rueidis.RedisMessage
		for _, r := range replies {
			messages = append(messages, r.Message(t))
		}
		return topology.ReadLayouts("teller:7000", messages...)
	}
	two := list(slotRow(0, 8191, text("a"), 1), slotRow(8192, 16382, text("b"), 2),
		slotRow(16383, 16383, text("a"), 1))
	shards, addrs, ok := read(two)
	require.True(t, ok)
	assert.Equal(t, []string{"a:1", "b:2"}, addrs)
	assert.EqualValues(t, 0, shards[0])
	assert.EqualValues(t, 0, shards[8191])
	assert.EqualValues(t, 1, shards[8192])
	assert.EqualValues(t, 1, shards[16382])
	assert.EqualValues(t, 0, shards[16383])

	shards, addrs, ok = read(two,
		list(slotRow(0, 99, text("c"), 3), slotRow(100, 16383, text("b"), 2)))
	require.True(t, ok)
	assert.Equal(t, []string{"c:3", "b:2"}, addrs,
		"who stays keeps the number, who comes gets the lowest that is free")
	assert.EqualValues(t, 0, shards[0])
	assert.EqualValues(t, 1, shards[100])
	_, addrs, _ = read(two, list(slotRow(0, 16383, text("b"), 2)))
	assert.Equal(t, []string{"", "b:2"}, addrs)

	for name, host := range map[string]redisreply.Reply{"empty": text(""), "null": null()} {
		_, addrs, ok = read(list(slotRow(0, 16383, host, 5)))
		assert.True(t, ok)
		assert.Equal(t, []string{"teller:5"}, addrs, "a host that is %s is that of who tells", name)
	}
	_, addrs, ok = read(list(slotRow(0, 16383, text("::1"), 5)))
	assert.True(t, ok)
	assert.Equal(t, []string{"[::1]:5"}, addrs)

	many := make([]redisreply.Reply, 16385)
	for i := range many {
		many[i] = slotRow(0, 0, text("a"), int64(i))
	}
	for name, odd := range map[string]redisreply.Reply{
		"no array": number(1), "nil": null(),
		"an error": fault("ERR This instance has cluster support disabled"), "empty": list(),
		"a row that is none": list(number(1)), "a short row": list(list(number(0), number(1))),
		"a slot too many":      list(slotRow(0, 16384, text("a"), 1)),
		"below 0":              list(slotRow(-1, 5, text("a"), 1)),
		"backwards":            list(slotRow(5, 4, text("a"), 1)),
		"a word for a slot":    list(list(text("x"), number(1), list(text("a"), number(1)))),
		"no port":              list(list(number(0), number(1), list(text("a")))),
		"a word for a port":    list(list(number(0), number(1), list(text("a"), text("x")))),
		"no node":              list(list(number(0), number(1), number(2))),
		"more rows than slots": list(many...),
	} {
		_, addrs, ok = read(two, odd)
		assert.False(t, ok, name)
		assert.Equal(t, []string{"a:1", "b:2"}, addrs, "%s: what was known stays", name)
	}
	_, _, ok = topology.ReadLayouts("no port", list(slotRow(0, 16383, text(""), 5)).Message(t))
	assert.False(t, ok)
}

// Whatever a server answers: no panic, and every slot has a shard with an
// address.
func FuzzLayout(f *testing.F) {
	f.Add([]byte{0, 7, 0, 0, 0, 0, 0, 0, 0}, int64(0), int64(8191), int64(7000), "a", "b:1")
	f.Add([]byte{27, 0, 1, 0, 0, 0, 0, 0, 0, 0}, int64(5), int64(4), int64(-1), "", "")
	f.Fuzz(func(t *testing.T, raw []byte, first, last, port int64, host, teller string) {
		odd, _ := redisreply.Any(raw)
		for _, reply := range []redisreply.Reply{
			odd, list(odd), list(slotRow(first, last, text(host), port), odd),
			list(slotRow(0, 8191, text(host), port), slotRow(first, last, text(teller), port)),
		} {
			shards, addrs, ok := topology.ReadLayouts(teller, reply.Message(t))
			if !ok {
				continue
			}
			for _, shard := range shards {
				require.NotEmpty(t, addrs[shard])
			}
		}
	})
}
