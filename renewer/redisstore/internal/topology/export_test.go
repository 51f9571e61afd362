package topology

import (
	"context"

	"github.com/redis/rueidis"
)

// The bounds of asking.
const (
	MaxAge     = maxAge
	Pause      = pause
	AskTimeout = askTimeout
)

// NewOf is New for servers that are none.
func NewOf(
	life context.Context, addrs func() []string,
	slots func(ctx context.Context, addr string) (rueidis.RedisMessage, error),
) *Topology {
	return &Topology{life: life, addrs: addrs, slots: slots}
}

// ReadLayouts is what a topology makes of replies of CLUSTER SLOTS from a
// server on addr, one after another: the shard of each slot, and their
// addresses. False if it believes none of the last.
func ReadLayouts(
	addr string, replies ...rueidis.RedisMessage,
) (shards []uint16, addrs []string, ok bool) {
	var l *layout
	for _, r := range replies {
		var next *layout
		if next, ok = readLayout(r, addr, l); ok {
			l = next
		}
	}
	if l == nil {
		return nil, nil, false
	}
	return l.shards[:], l.addrs, ok
}
