package redisstore

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/store"
)

var (
	//go:embed lua/newest.lua
	newestText string

	newestScript = newScript(newestText)
)

var _ store.Replacer = (*Store)(nil)

// opReplace is what is asked, in errors.
const opReplace = "replace"

const newestSuffix = ":newest"

// Replace implements [store.Replacer].
func (s *Store) Replace(ctx context.Context, r store.Replacement) (since int64, err error) {
	if isLimit(r.Name) {
		return 0, fmt.Errorf("redisstore: %s: %w: %w: it is for locks, and not for limits",
			opReplace, store.ErrConfig, store.ErrRejected)
	}
	what := "wait"
	switch {
	case r.Over:
		what = "over"
	case r.Break:
		what = "break"
	}
	keys := []string{leaseKey(s.codec.prefix, r.Name)}
	if s.codec.cluster {
		keys = append(keys, keys[0]+newestSuffix)
	}
	process := part(r.By.Node) + separator + strconv.Itoa(r.By.PID)
	reply, err := s.callFor(ctx, opReplace, &newestScript, r.Name, keys, what, r.Owner, process,
		decimal(r.Since), decimal(leastLine.Milliseconds()),
		brokenText(store.Broken{By: r.By.String(), Replaced: true}))
	if err != nil {
		return 0, err
	}
	if n, err := reply.ToInt64(); err == nil && n == 0 {
		return 0, nil
	}
	since, before, broken, ok := readNewest(reply)
	if !ok {
		return 0, unreadable(opReplace)
	}
	for _, holder := range []store.Holder{before, broken} {
		if holder != (store.Holder{}) {
			s.notice(ctx, holder, r.Name)
		}
	}
	return since, nil
}

// readNewest reads the reply of newest.lua: since when the call is the newest, whose is the call
// before, and whose lease was broken.
func readNewest(reply rueidis.RedisMessage) (since int64, before, broken store.Holder, ok bool) {
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 3 {
		return 0, before, broken, false
	}
	since, err0 := parts[0].ToInt64()
	process, err1 := parts[1].ToString()
	value, err2 := parts[2].ToString()
	if err0 != nil || err1 != nil || err2 != nil || since < 1 || since > maxExact {
		return 0, before, broken, false
	}
	if node, rest, ok := strings.Cut(process, separator); ok {
		pid, _, _ := strings.Cut(rest, separator) // later versions may add lines
		before.Node, before.PID = part(node), readPID(pid)
	}
	broken, _ = decodeValue(value)
	return since, before, broken, true
}
