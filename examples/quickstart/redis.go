package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/testutil/embedded"
)

// redis is the server for both tasks and locks. All keys of a run
// carry its name, so that a server of yours is not disturbed.
type redis struct {
	name   string
	addr   string
	option rueidis.ClientOption
	direct rueidis.Client  // has no part in the story: it looks on, and cleans up
	inside *embedded.Redis // nil for a server of yours
}

// openRedis connects to the server at addr, or starts one inside the program if that is "".
func openRedis(addr string) (*redis, error) {
	r := &redis{
		name: "quickstart-" + strings.ToLower(rand.Text()[:10]),
		addr: addr,
		// The links that are cut are links to one address: the client
		// must not find others by itself.
		option: rueidis.ClientOption{ForceSingleClient: true, DisableCache: true},
	}
	if addr == "" {
		inside, err := embedded.Start()
		if err != nil {
			return nil, err
		}
		r.inside, r.addr, r.option = inside, inside.Addr(), inside.ClientOption()
	}
	var err error
	if r.direct, err = rueidis.NewClient(r.locks(r.addr)); err != nil {
		r.close()
		return nil, fmt.Errorf("connect to Redis at %s: %w", r.addr, err)
	}
	return r, nil
}

// locks are the options of a client that finds the server at addr, which may be a proxy's.
func (r *redis) locks(addr string) rueidis.ClientOption {
	option := r.option
	option.InitAddress = []string{addr}
	return option
}

// tasks are the same for asynq.
func (r *redis) tasks() asynq.RedisClientOpt { return asynq.RedisClientOpt{Addr: r.addr} }

// prefix is that of the locks' keys.
func (r *redis) prefix() string { return r.name + ":" }

// look returns how long the lock on name will live without a renewal, and the fencing token of
// whoever had it last. The token is read after the time, so if it is ours, so was the time.
func (r *redis) look(
	ctx context.Context, name string,
) (left time.Duration, fence int64, err error) {
	key := r.prefix() + "{" + name + "}"
	replies := r.direct.DoMulti(ctx,
		r.direct.B().Pttl().Key(key).Build(),
		r.direct.B().Get().Key(key+":fence").Build())
	ms, err := replies[0].AsInt64()
	if err != nil {
		return 0, 0, err
	}
	fence, err = replies[1].AsInt64()
	return time.Duration(ms) * time.Millisecond, fence, err
}

// held returns the locks that somebody has.
func (r *redis) held(ctx context.Context) ([]string, error) {
	return r.keys(ctx, r.prefix()+"{*}")
}

// clean deletes what the run has left: fence counters, and asynq's figures about the queue.
func (r *redis) clean(ctx context.Context) error {
	keys, err := r.keys(ctx, "*"+r.name+"*")
	if err != nil {
		return err
	}
	b := r.direct.B()
	commands := rueidis.Commands{b.Srem().Key("asynq:queues").Member(r.name).Build()}
	for _, key := range keys {
		commands = append(commands, r.direct.B().Del().Key(key).Build())
	}
	for _, reply := range r.direct.DoMulti(ctx, commands...) {
		if err := reply.Error(); err != nil {
			return fmt.Errorf("clean up: %w", err)
		}
	}
	return nil
}

// keys returns those that match a pattern.
func (r *redis) keys(ctx context.Context, pattern string) (keys []string, err error) {
	for cursor := uint64(0); ; {
		page, err := r.direct.Do(ctx,
			r.direct.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", pattern, err)
		}
		keys = append(keys, page.Elements...)
		if cursor = page.Cursor; cursor == 0 {
			return keys, nil
		}
	}
}

func (r *redis) close() {
	if r.direct != nil {
		r.direct.Close()
	}
	if r.inside != nil {
		r.inside.Close()
	}
}
