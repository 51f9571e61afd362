// Package view reads the locks of a deployment for people: which there are, who
// has them, and who waits. Beside that it keeps what others are shown of who
// waits in this process.
//
// It sends plain commands and no script, and but for that one key it only
// reads: a user who may only look needs no right to write, and nothing that is
// shown is believed by a claim or a hold.
//
//	list.go   all locks
//	show.go   one, and who waits for it
//	found.go  what is read of a name
//	face.go   who waits in a process
package view

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
)

// View is what is shown of a deployment. Its methods may be called
// concurrently.
type View struct {
	prefix string
	sender *wire.Sender
	errors *refusal.Reader
	within time.Duration // of one request
}

// New shows the locks with a prefix, and gives each request so much time.
func New(
	prefix string, sender *wire.Sender, errors *refusal.Reader, within time.Duration,
) *View {
	return &View{prefix, sender, errors, within}
}

// maxShown is how much is read of a value, in bytes: see schema.
const maxShown = 300

// shownArgs are the arguments of GETRANGE for so much.
var shownArgs = []string{"0", schema.Decimal(maxShown - 1)}

// looks are commands that read, to be sent together: those of each shard in a
// pipeline. They are plain commands and no script, so that a user who may only
// look needs no right to write.
type looks struct {
	view *View
	op   string
	all  []look

	mu  sync.Mutex // replies of several shards come at once
	err error
}

// look is one command. take gets its reply; foreign means that the key is of
// another type than ours are.
type look struct {
	tag     string // the hash tag of its key
	command string
	key     string
	args    []string
	take    func(reply rueidis.RedisMessage, foreign bool)
}

func (v *View) newLooks(op string) *looks { return &looks{view: v, op: op} }

func (l *looks) add(one look) { l.all = append(l.all, one) }

// text adds a command that reads up to so many bytes of a key into to, "" if it
// is not there.
func (l *looks) text(tag, key string, most int, to *string) {
	l.add(look{
		tag: tag, command: "GETRANGE", key: key,
		args: []string{"0", schema.Decimal(int64(most - 1))},
		take: func(reply rueidis.RedisMessage, _ bool) { *to, _ = reply.ToString() },
	})
}

// count adds a command that reads how many members a sorted set has, and adds
// that to to.
func (l *looks) count(tag, key string, to *int) {
	l.add(look{
		tag: tag, command: "ZCARD", key: key,
		take: func(reply rueidis.RedisMessage, _ bool) {
			n, _ := reply.AsInt64()
			*to += int(n)
		},
	})
}

// sendAtOnce is how many commands go in a pipeline: others wait for some 0.2 ms
// meanwhile.
const sendAtOnce = 200

// send sends what was added, and has the replies taken. It can be used again.
func (l *looks) send(ctx context.Context) error {
	l.err = nil
	for all := range slices.Chunk(l.all, sendAtOnce) {
		l.sendSome(ctx, all)
		if l.err != nil {
			break
		}
	}
	clear(l.all)
	l.all = l.all[:0]
	return l.err
}

func (l *looks) sendSome(ctx context.Context, all []look) {
	todo := wire.Calls{N: len(all)}
	todo.SlotOf = func(i int) uint16 { return schema.SlotOf(all[i].tag) }
	todo.Build = func(i int, _ bool) rueidis.Completed {
		one := &all[i]
		return l.view.sender.Client.B().Arbitrary(one.command).Keys(one.key).Args(one.args...).
			Build()
	}
	todo.Take = func(i int, r rueidis.RedisResult) {
		reply, err := r.ToMessage()
		switch {
		case err == nil, rueidis.IsRedisNil(err):
			all[i].take(reply, false)
		case l.view.errors.Foreign(err):
			all[i].take(reply, true)
		default:
			l.fail(err)
		}
	}
	ctx, cancel := l.view.bounded(ctx)
	defer cancel()
	l.view.sender.SpreadCalls(ctx, nil, todo)
}

// fail keeps the first error.
func (l *looks) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = l.view.errors.Wrap(l.op, err)
	}
}

// bounded bounds one request: the client sends what only reads again and again,
// for as long as it may.
func (v *View) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, v.within)
}

// clockOf asks a server for its time.
func (v *View) clockOf(ctx context.Context, op string, node rueidis.Client) (time.Time, error) {
	ctx, cancel := v.bounded(ctx)
	defer cancel()
	r := wire.Do(ctx, node, node.B().Time().Build())
	parts, err := r.AsStrSlice()
	if err != nil {
		return time.Time{}, v.errors.Wrap(op, err)
	}
	if len(parts) != 2 {
		return time.Time{}, refusal.Unreadable(op)
	}
	us := schema.Exact(parts[0] + strings.Repeat("0", max(6-len(parts[1]), 0)) + parts[1])
	if us == 0 {
		return time.Time{}, refusal.Unreadable(op)
	}
	return time.UnixMicro(us), nil
}
