package redisstore

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
)

// probeLook asks whether the server lets us do what List and Show need.
func (p *prober) probeLook(ctx context.Context) error {
	b, key := p.client.B(), markKey(p.prefix, probeName)+":look" // which nobody has
	all := []rueidis.Completed{
		b.Scan().Cursor(0).Match(pattern(p.prefix)).Count(1).Build(),
		b.Time().Build(),
		b.Pttl().Key(key).Build(),
		b.Zscan().Key(key).Cursor(0).Build(),
		b.Zcard().Key(key).Build(),
		b.Zrange().Key(key).Min("0").Max("0").Build(),
		b.Hmget().Key(key).Field("x").Build(),
	}
	// A client that takes a node of a cluster for a single server would show that one's locks
	// alone. The node sends it elsewhere for the slots that it has not.
	for slot := range uint16(topology.Slots / 1024) {
		key := markKey(p.prefix, topology.TagOf(slot*1024)) + ":look"
		all = append(all, b.Getrange().Key(key).Start(0).End(0).Build())
	}
	for _, command := range all {
		r := wire.Do(ctx, p.client, command)
		if answer, ok := rueidis.IsRedisErr(r.Error()); ok && p.errors.definite(answer.Error()) {
			return p.refused(ctx, r.Error())
		}
		if err := p.orLater(r); err != nil {
			return err
		}
	}
	return nil
}
