package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// ErrReplicas is why an acquire got no definite answer from a store with
// [Replicas]: the server granted the lock, but too few of its replicas
// confirmed it in time. A later question of the same owner may be granted; the
// engine frees what no caller asks for any more.
var ErrReplicas = errors.New("redisstore: too few replicas confirmed the lock")

// Replicas has each grant confirmed by n replicas of its server, 0 by default,
// before it counts: it narrows the window in which a fail-over forgets a lock
// that its holder believes in (see docs/redis.md). The server waits for them by
// WAIT, for at most a tenth of the TTL. When too few confirm by then the grant
// is uncertain: the error is [renewer.ErrUnavailable] and [ErrReplicas].
//
// A grant takes a second round trip for that, and a connection of its own
// meanwhile, from the client's pool for blocking commands, lest others'
// requests queue up behind it; the user needs the right +wait. Refusals,
// renewals and releases are not waited for.
func Replicas(n int) Option { return func(s *settings) { s.replicas = n } }

// waitFor is how long replicas may take to confirm a grant with a TTL: less
// than the 18 % of it that the engine waits for an answer by default, so that
// it learns why there is none.
func waitFor(ttl time.Duration) time.Duration { return max(ttl/10, time.Millisecond) }

// confirm asks again for what a job was granted since an instant, each claim on
// a connection of its own, and takes back the grants that too few replicas
// confirm. A claim that was refused waits for no replica.
func (s *engine) confirm(ctx context.Context, granted *claiming, since time.Time) {
	var wg sync.WaitGroup
	for i, first := range granted.grants {
		if first.Status != store.StatusHeld {
			continue
		}
		wg.Go(func() {
			again, err := s.acquireConfirmed(ctx, granted, i, since)
			s.sender.NoteClosed(ctx, again)
			granted.Read(i, again)
			switch second := &granted.grants[i]; {
			case second.Status != store.StatusHeld:
			case err != nil:
				*second = store.Grant{Err: err}
			case second.Fence == first.Fence:
				*second = first // which may tell more: of tokens reserved, of the record
			}
			if s.topology != nil {
				s.topology.Review(again.Error() != nil)
			}
		})
	}
	wg.Wait()
}

// acquireConfirmed sends one claim, and right behind it on the same connection,
// since that is what WAIT goes by, the question whether the replicas have it.
// Both go to the lock's server by its own client: a cluster's client would
// follow a redirection with the claim alone, and ask the wrong server's
// replicas.
func (s *engine) acquireConfirmed(
	ctx context.Context, todo *claiming, i int, since time.Time,
) (granted rueidis.RedisResult, unconfirmed error) {
	name := contract.Claimed(&todo.claims[todo.starts[i]])
	node, replicas := s.sender.ServerOf(schema.SlotOf(name.Text)), todo.codec.replicas
	within := waitFor(todo.claims[i].TTL)
	until := since.Add(within)
	whole := false
	for round := 1; ; round++ {
		// A round that granted nothing may have waited too: for what others had
		// written.
		left := max(time.Until(until), time.Millisecond)
		wait := s.sender.Client.B().Wait().Numreplicas(int64(replicas)).Timeout(
			left.Milliseconds(),
		).Build()
		results := wire.DoApart(ctx, node, left+s.settle/2, todo.Command(i, whole), wait)
		granted = results[0]
		unknown := wire.UnknownScript(granted)
		whole = whole || unknown
		moved := s.sender.MovedTo(ctx, granted, schema.LeaseKey(todo.codec.prefix, name))
		if moved != nil {
			node = moved
		}
		if round < wire.MaxRounds && (unknown || moved != nil || wire.Broken(ctx, granted)) {
			continue
		}
		have, err := results[1].AsInt64()
		switch {
		case err != nil:
			return granted, s.codec.errors.Wrap("acquire", err)
		case have < int64(replicas):
			return granted, fmt.Errorf("%w: %d of %d within %v; is one down, or cut off?",
				ErrReplicas, have, replicas, within)
		default:
			return granted, nil
		}
	}
}
