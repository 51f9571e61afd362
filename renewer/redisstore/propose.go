package redisstore

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var _ contract.Proposer = (*engine)(nil)

// Propose implements [contract.Proposer]. A token above 2^53-1, which the server can't compare, is
// refused with an error.
func (s *engine) Propose(ctx context.Context, proposals []contract.Proposal) []store.Grant {
	c, grants := s.codec, make([]store.Grant, len(proposals))
	todo := &calls{n: len(proposals), nameOf: func(i int) string { return proposals[i].Name }}
	todo.build = func(i int, whole bool) rueidis.Completed {
		p := &proposals[i]
		return proposeScript.command(c.builder(), whole, []string{lockKey(c.prefix, p.Name)},
			c.ttls.of(p.TTL), c.fenceText, c.markOf(p.Name), c.lines.of(lineTerms{c.mode(), p.TTL}),
			p.Owner, "", c.holderText(p.Holder, p.Callers), decimal(p.Fence),
			strconv.Itoa(p.Reserve))
	}
	todo.readOne = func(i int, r rueidis.RedisResult) {
		reply, err := r.ToMessage()
		if err == nil {
			err = reply.Error()
		}
		if err != nil {
			grants[i] = c.noGrant(err)
			return
		}
		var ok bool
		if grants[i], _, ok = readGrant(reply, proposals[i].Fence); !ok {
			grants[i] = store.Grant{Err: unreadable("acquire")}
		}
	}
	s.sender.Spread(ctx, &s.acquiring, todo)
	return grants
}
