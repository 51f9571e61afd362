package redisstore

import (
	"context"
	_ "embed"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var (
	//go:embed lua/newest.lua
	newestText string

	newestScript = newScript(newestText)
)

var _ contract.Replacer = (*engine)(nil)

// opReplace is what is asked, in errors.
const opReplace = "replace"

const (
	newestSuffix = ":newest"
	begunSuffix  = ":begun"
)

// Replace implements [contract.Replacer].
func (s *engine) Replace(ctx context.Context, r contract.Replacement) (since int64, err error) {
	what := "wait"
	switch {
	case r.Over:
		what = "over"
	case r.Break:
		what = "break"
	}
	keys := []string{lockKey(s.codec.prefix, r.Name)}
	if s.codec.cluster {
		keys = append(keys, keys[0]+newestSuffix, keys[0]+begunSuffix)
	}
	n := newnessText(r.Newness)
	process := part(r.By.Node) + separator + strconv.Itoa(r.By.PID)
	reply, err := s.callFor(ctx, opReplace, &newestScript, r.Name, keys, what, r.Owner, process,
		n[0], n[1], n[2], decimal(contract.NoteTTL.Milliseconds()),
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
			s.notice(ctx, holder, contract.Name{Text: r.Name})
		}
	}
	return since, nil
}

// newnessText is how new a call is, for scripts: its rank, when it was made, and how long ago that
// was.
func newnessText(n store.Newness) [3]string {
	return [3]string{decimal(max(n.Rank, 0)), decimal(n.Since), decimal(n.Age.Microseconds())}
}

// begunTTL is for how long it is known that a call has had a lock.
func begunTTL(n store.Newness) time.Duration {
	if n.Rank != 0 {
		return contract.RankTTL
	}
	return contract.NoteTTL
}

// readNewest reads the reply of newest.lua: when the call was made, whose is the call
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
