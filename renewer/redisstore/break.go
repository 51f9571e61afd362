package redisstore

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Break implements [store.Inspector].
func (s *engine) Break(ctx context.Context, b store.Breaking) store.Answer {
	owner := ""
	if b.Limit {
		var err error
		if owner, err = s.ownerOf(ctx, b.Name, b.Fence); err != nil {
			return store.Answer{Err: s.codec.errors.Wrap(refusal.OpBreak, err)}
		} else if owner == "" {
			return store.Answer{Status: store.StatusGone}
		}
	}
	answer, holder := s.breakOne(ctx, b, owner)
	if holder != nil { // best effort: else it hears of it by its next heartbeat
		s.notice(ctx, *holder, contract.Broken(&b))
	}
	return answer
}

// breakOne breaks a lease, and returns whose it was, if it is broken.
func (s *engine) breakOne(
	ctx context.Context, b store.Breaking, owner string,
) (answer store.Answer, holder *store.Holder) {
	do, keys := script.Break, []string{schema.LeaseKey(s.codec.prefix, contract.Broken(&b))}
	args := []string{
		schema.Decimal(b.Fence), schema.BrokenText(b.Broken), s.codec.freeText(b.Name),
	}
	if owner != "" {
		do, args = script.SlotsBreak, append(args, owner)
		if s.codec.cluster {
			keys = append(keys, keys[0]+schema.HoldersSuffix)
		}
	}
	reply, err := s.asker.Ask(ctx, refusal.OpBreak,
		script.Call{Script: do, Name: b.Name, Keys: keys, Args: args})
	if err != nil {
		return store.Answer{Err: err}, nil
	}
	if n, err := reply.ToInt64(); err == nil && n == 0 {
		return store.Answer{Status: store.StatusGone}, nil
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) < 2 || len(parts) > 3 {
		return store.Answer{Err: refusal.Unreadable(refusal.OpBreak)}, nil
	}
	value, err0 := parts[0].ToString()
	broken, err1 := parts[1].ToInt64()
	if err := errors.Join(err0, err1); err != nil {
		return store.Answer{Err: refusal.Unreadable(refusal.OpBreak)}, nil
	}
	if len(parts) == 3 {
		text, _ := parts[2].ToString()
		if _, turn, ok := readTurn(text); ok {
			s.line.Gave(contract.Broken(&b), turn)
		}
	}
	if l, ok := schema.ReadLease(value); broken == 0 && ok && l.Fence == 0 {
		return store.Answer{Err: s.codec.errors.Wrap(refusal.OpBreak, errYoung)}, nil
	}
	if broken == 0 {
		answer.Status = store.StatusTaken
		readTaker(&answer, value)
		return answer, nil
	}
	h, _ := schema.DecodeValue(value)
	return store.Answer{Status: store.StatusHeld, Holder: &h}, &h
}

var errYoung = errors.New("the lock was claimed a moment ago: its fencing token is noted by the " +
	"first heartbeat of its holder; break it then")

// ownerOf finds the owner of a slot by its fencing token, in bounded steps; ""
// if none has it.
func (s *engine) ownerOf(ctx context.Context, name string, fence int64) (string, error) {
	limit := contract.Name{Text: name, Limit: true}
	client, key := s.sender.Client, schema.LeaseKey(s.codec.prefix, limit)+schema.HoldersSuffix
	begins := schema.Decimal(fence) + schema.Separator
	for cursor := uint64(0); ; {
		cmd := client.B().Hscan().Key(key).Cursor(cursor).Count(wire.ScanStep).Build().ToPipe()
		entry, err := client.Do(ctx, cmd).AsScanEntry()
		if err != nil {
			return "", err
		}
		for i := 0; i+1 < len(entry.Elements); i += 2 {
			owner := entry.Elements[i]
			if len(owner) == store.OwnerLen && strings.HasPrefix(entry.Elements[i+1], begins) {
				return owner, nil
			}
		}
		if cursor = entry.Cursor; cursor == 0 {
			return "", nil
		}
	}
}

// notice tells a process that a lease of its own may have been broken.
func (s *engine) notice(ctx context.Context, holder store.Holder, name contract.Name) {
	_, _ = s.asker.Ask(ctx, refusal.OpBreak, script.Call{
		Script: script.Notice, Name: schema.ProcessName(holder),
		Keys: []string{schema.ProcessChannel(s.codec.prefix, holder)},
		Args: []string{schema.LeaseKey(s.codec.prefix, name), s.codec.mode()},
	})
}

// OnBreak implements [store.Inspector]. It keeps a subscription for as long as
// it is not stopped.
func (s *engine) OnBreak(
	holder store.Holder, look func(name string, limit bool),
) (stop func()) {
	return s.subscriber.Watch(schema.ProcessChannel(s.codec.prefix, holder),
		func(key string, err error) {
			name, beside, ok := schema.ReadKey(s.codec.prefix, key)
			if err == nil && (key == "" || ok && beside == "") {
				look(name.Text, name.Limit)
			}
		})
}

// opReplace is what is asked, in errors.
const opReplace = "replace"

// Replace implements [contract.Replacer].
func (s *engine) Replace(ctx context.Context, r contract.Replacement) (since int64, err error) {
	what := "wait"
	switch {
	case r.Over:
		what = "over"
	case r.Break:
		what = "break"
	}
	keys := []string{schema.LockKey(s.codec.prefix, r.Name)}
	if s.codec.cluster {
		keys = append(keys, keys[0]+schema.NewestSuffix, keys[0]+schema.BegunSuffix)
	}
	n := newnessText(r.Newness)
	process := schema.Part(r.By.Node) + schema.Separator + strconv.Itoa(r.By.PID)
	reply, err := s.asker.Ask(ctx, opReplace, script.Call{
		Script: script.Newest, Name: r.Name, Keys: keys,
		Args: []string{
			what, r.Owner, process, n[0], n[1], n[2],
			schema.Decimal(contract.NoteTTL.Milliseconds()),
			schema.BrokenText(store.Broken{By: r.By.String(), Replaced: true}),
		},
	})
	if err != nil {
		return 0, err
	}
	if n, err := reply.ToInt64(); err == nil && n == 0 {
		return 0, nil
	}
	since, before, broken, ok := readNewest(reply)
	if !ok {
		return 0, refusal.Unreadable(opReplace)
	}
	for _, holder := range []store.Holder{before, broken} {
		if holder != (store.Holder{}) {
			s.notice(ctx, holder, contract.Name{Text: r.Name})
		}
	}
	return since, nil
}

// newnessText is how new a call is, for scripts: its rank, when it was made,
// and how long ago that was.
func newnessText(n store.Newness) [3]string {
	return [3]string{
		schema.Decimal(max(n.Rank, 0)), schema.Decimal(n.Since),
		schema.Decimal(n.Age.Microseconds()),
	}
}

// begunTTL is for how long it is known that a call has had a lock.
func begunTTL(n store.Newness) time.Duration {
	if n.Rank != 0 {
		return contract.RankTTL
	}
	return contract.NoteTTL
}

// readNewest reads the reply of newest.lua: when the call was made, whose is
// the call before, and whose lease was broken.
func readNewest(reply rueidis.RedisMessage) (since int64, before, broken store.Holder, ok bool) {
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 3 {
		return 0, before, broken, false
	}
	since, err0 := parts[0].ToInt64()
	process, err1 := parts[1].ToString()
	value, err2 := parts[2].ToString()
	if err0 != nil || err1 != nil || err2 != nil || since < 1 || since > schema.MaxExact {
		return 0, before, broken, false
	}
	if node, rest, ok := strings.Cut(process, schema.Separator); ok {
		pid, _, _ := strings.Cut(rest, schema.Separator) // later versions may add lines
		before.Node, before.PID = schema.Part(node), schema.ReadPID(pid)
	}
	broken, _ = schema.DecodeValue(value)
	return since, before, broken, true
}
