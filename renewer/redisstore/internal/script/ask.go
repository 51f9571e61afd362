package script

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
)

// Asker makes calls of scripts of which each is about one name. Its methods may
// be called concurrently.
type Asker struct {
	Prefix  string
	Sender  *wire.Sender
	Through *wire.Windows // how much may be under way
	Errors  *refusal.Reader
}

// Call is one call of a script.
type Call struct {
	Script     Script
	Name       string // of the lock or limit that the keys are about
	Keys, Args []string
}

// Ask makes one call.
func (a *Asker) Ask(
	ctx context.Context, op string, call Call,
) (reply rueidis.RedisMessage, err error) {
	a.All(ctx, op, []Call{call}, func(_ int, r rueidis.RedisMessage, failed error) {
		reply, err = r, failed
	})
	return reply, err
}

// All makes several calls at once, and has the reply to each read, or why there
// is none. Several goroutines may read, for another i each.
func (a *Asker) All(
	ctx context.Context, op string, calls []Call,
	read func(i int, reply rueidis.RedisMessage, err error),
) {
	a.Sender.SpreadCalls(ctx, a.Through, wire.Calls{
		N:      len(calls),
		SlotOf: func(i int) uint16 { return schema.SlotOf(calls[i].Name) },
		Build: func(i int, whole bool) rueidis.Completed {
			c := &calls[i]
			return c.Script.Command(a.Sender.Client.B(), whole, c.Keys, c.Args...)
		},
		Take: func(i int, r rueidis.RedisResult) {
			reply, err := r.ToMessage()
			if err != nil {
				err = a.Errors.Wrap(op, err)
			}
			read(i, reply, err)
		},
	})
}
