// Package view reads the locks of a deployment for people: which there are, who
// has them, and who waits. Beside that it keeps what others are shown of who
// waits in this process.
//
// It sends plain commands and no script, and but for that one key it only
// reads: a user who may only look needs no right to write, and nothing that is
// shown is believed by a claim or a hold.
//
//	list.go  all locks; one, and who waits for it; who waits in a process
//	view.go  the commands that read, and what is read of a name
package view

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
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

const (
	// mostSlots bounds how many slots are shown of a limit.
	mostSlots = 10_000
	// slotsAtOnce is how many of them a command reads: some 0.05 ms.
	slotsAtOnce = 100
)

// found is a name of which more is read, in rounds: each asks for what the one
// before has shown to be there. Between the rounds it may change: then what is
// shown of it is of several moments.
type found struct {
	lock  store.Lock
	tag   string // the hash tag of its keys
	key   string
	waits bool     // others may wait for it
	tasks []string // keys of lines of tasks that are known

	value string // of a lock
	left  int64  // its time to live, ms; -2: it is not there
	tries int

	cursor  string           // of a limit's slots that are left; "": none are
	members map[string]int64 // until when they have it, by the server's clock in us
	told    []string         // what is known of each slot, and then whether it is waited for
	records []string         // who broke each slot; "" if it is not broken
}

func newFound(prefix string, name contract.Name) found {
	key := schema.LeaseKey(prefix, name)
	f := found{lock: store.Lock{Name: name.Text, Limit: name.Limit}, tag: name.Text, key: key}
	if name.Limit {
		f.cursor, f.members = "0", make(map[string]int64)
	}
	return f
}

// isListed reports whether it is not free, or tasks wait for it.
func (f *found) isListed() bool {
	l := &f.lock
	return len(l.Slots) > 0 || l.Foreign || l.Turns+l.Tasks > 0
}

// readAll reads several names, which node has. more, if it is not nil, asks for
// more with the last round.
func (v *View) readAll(
	ctx context.Context, l *looks, node rueidis.Client, all []found, more func(*looks),
) error {
	for left := true; left; {
		left = false
		for i := range all {
			if f := &all[i]; f.tries == 0 || f.isUnread() {
				f.askFirst(l)
				left = true
			}
		}
		if err := l.send(ctx); err != nil {
			return err
		}
	}
	at, err := v.clockOf(ctx, l.op, node) // after what was granted before
	if err != nil {
		return err
	}
	for i := range all {
		f := &all[i]
		f.lock.At = at
		f.settle()
		f.askMore(l)
	}
	if more != nil {
		more(l)
	}
	if err := l.send(ctx); err != nil {
		return err
	}
	for i := range all {
		all[i].complete()
	}
	return nil
}

// isUnread reports whether to ask again who has it: there are more slots, or
// there was no value before there was a time to live. If that is so twice the
// value is empty.
func (f *found) isUnread() bool {
	return f.cursor != "" || !f.lock.Limit && f.value == "" && f.left != -2 && f.tries < 2
}

// askFirst asks who has it.
func (f *found) askFirst(l *looks) {
	f.tries++
	if f.lock.Limit {
		l.add(look{
			tag: f.tag, command: "ZSCAN", key: f.key,
			args: []string{f.cursor, "COUNT", strconv.Itoa(slotsAtOnce)}, take: f.takeSlots,
		})
		return
	}
	l.add(look{
		tag: f.tag, command: "GETRANGE", key: f.key, args: shownArgs,
		take: func(reply rueidis.RedisMessage, foreign bool) {
			f.value, _ = reply.ToString()
			f.lock.Foreign = foreign
		},
	})
	l.add(look{
		tag: f.tag, command: "PTTL", key: f.key,
		take: func(reply rueidis.RedisMessage, _ bool) { f.left, _ = reply.AsInt64() },
	})
}

// takeSlots takes some members of a limit's set. A scan may tell one twice.
func (f *found) takeSlots(reply rueidis.RedisMessage, foreign bool) {
	f.cursor, f.lock.Foreign = "", foreign
	entry, err := reply.AsScanEntry()
	if foreign || err != nil {
		return
	}
	for i := 0; i+1 < len(entry.Elements); i += 2 {
		score, err := strconv.ParseFloat(entry.Elements[i+1], 64)
		if err == nil && score > 0 {
			f.members[entry.Elements[i]] = int64(min(score, schema.MaxExact))
		}
	}
	if entry.Cursor != 0 && len(f.members) < mostSlots {
		f.cursor = strconv.FormatUint(entry.Cursor, 10)
	}
}

// settle makes of what was read who has it.
func (f *found) settle() {
	if f.lock.Limit {
		f.settleLimit()
		return
	}
	if f.lock.Foreign || f.left == -2 {
		return
	}
	if l, ok := schema.ReadLease(f.value); ok {
		f.waits = f.waits || l.WaitedFor
		f.lock.Slots = []store.Slot{slotOfLease(l, schema.Millis(f.left))}
		f.records = make([]string, 1)
		return
	}
	f.lock.Foreign = true
}

// settleLimit is settle for a limit: of its members those whose time is not
// over.
func (f *found) settleLimit() {
	f.waits = true
	now := f.lock.At.UnixMicro()
	for member, until := range f.members {
		switch {
		case until <= now:
		case len(member) == store.OwnerLen:
			f.lock.Slots = append(f.lock.Slots, store.Slot{
				TTL: time.Duration(until-now) * time.Microsecond,
			})
			f.told = append(f.told, member)
		default:
			f.lock.Turns++
		}
	}
	f.records = make([]string, len(f.told))
}

// askMore asks for what is known of its slots, who broke them, and how many
// wait.
func (f *found) askMore(l *looks) {
	owners := f.told
	if f.lock.Limit && len(owners) > 0 {
		for at := 0; at < len(owners); at += slotsAtOnce {
			f.askSlots(l, at, min(at+slotsAtOnce, len(owners)))
		}
	} else if len(f.lock.Slots) > 0 {
		owners = []string{f.value[:store.OwnerLen]}
	}
	for i, owner := range owners {
		if strings.HasPrefix(owner, schema.BrokenMark) {
			l.text(f.tag, f.key+schema.BrokenSuffix+owner, maxShown, &f.records[i])
		}
	}
	if f.waits {
		l.count(f.tag, f.key+schema.LineSuffix, &f.lock.Waiting)
	}
	for _, key := range f.tasks {
		l.count(f.tag, key, &f.lock.Tasks)
	}
}

// askSlots asks what is known of some of a limit's owners.
func (f *found) askSlots(l *looks, from, to int) {
	l.add(look{
		tag: f.tag, command: "HMGET", key: f.key + schema.HoldersSuffix,
		args: slices.Clone(f.told[from:to]),
		take: func(reply rueidis.RedisMessage, foreign bool) {
			f.lock.Foreign = f.lock.Foreign || foreign
			texts, _ := reply.ToArray()
			for i := range min(len(texts), to-from) {
				text, _ := texts[i].ToString()
				f.told[from+i] += schema.Separator + text
			}
		},
	})
}

// complete puts together what the rounds have read. A slot of which nothing is
// known is not shown: it was freed after the set was read, and before the hash
// was.
func (f *found) complete() {
	shown := f.lock.Slots[:0]
	for i, slot := range f.lock.Slots {
		value := f.value
		if f.lock.Limit {
			value = f.told[i]
			known, ok := schema.ReadLease(value)
			if !ok {
				continue
			}
			slot = slotOfLease(known, slot.TTL)
		}
		if strings.HasPrefix(value, schema.BrokenMark) {
			// also if that is lost
			slot.Broken = cmp.Or(schema.ReadBroken(f.records[i]), &store.Broken{})
			slot.Told = schema.IsTold(f.records[i])
		}
		shown = append(shown, slot)
	}
	f.lock.Slots = shown
	slices.SortFunc(f.lock.Slots, func(a, b store.Slot) int { return cmp.Compare(a.TTL, b.TTL) })
}

func slotOfLease(l schema.LeaseValue, ttl time.Duration) store.Slot {
	return store.Slot{
		Holder: l.Holder, Fence: l.Fence, Since: time.UnixMicro(l.Since), TTL: ttl,
		Callers: l.Callers,
	}
}
