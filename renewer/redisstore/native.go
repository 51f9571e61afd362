package redisstore

import (
	"context"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/native"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// nativeName is how long a name may be whose lock is claimed natively: see
// wire.Sender.Pair.
const nativeName = 256

// newRule says when claims are native: never by a client whose connections are
// not counted.
func newRule(client rueidis.Client) *native.Rule {
	r := &native.Rule{Quiet: func() bool { return wire.Quiet(native.QuietFor) }}
	if !wire.Counts(client) {
		r.Refused(true)
	}
	return r
}

// claimAlone claims for one caller: by the script, unless native commands do.
func (c *codec) claimAlone(
	ctx context.Context, s *wire.Sender, claims []store.Claim,
) []store.Grant {
	first := &claims[0]
	mayBe := len(claims) == 1 && first.Limit == 0 && !c.cluster && c.replicas == 0
	if mayBe && needsNoScript(first) {
		if grants := c.claimNatively(ctx, s, first); grants != nil {
			return grants
		}
	}
	job, sent := c.newClaiming(claims), time.Now()
	s.Call(ctx, job, true)
	if g := &job.grants[0]; mayBe && g.Status == store.StatusHeld {
		c.native.Script(g.Fence, sent, time.Now())
	}
	return job.grants
}

// needsNoScript reports whether two commands do for a claim of a lock, if that
// is free.
func needsNoScript(c *store.Claim) bool {
	return c.Place == 0 && !c.Manual && !givesWay(c) && len(c.Name) <= nativeName &&
		len(c.Owner) == store.OwnerLen
}

// nativeJob is what a native claim needs, in one allocation.
type nativeJob struct {
	grants [1]store.Grant
	room   [4]rueidis.Completed
	text   [256]byte // its key and value
}

// claimNatively claims a lock without a script: see package native. After nil
// the script decides, for the same owner: of what has come of this it sees its
// own.
func (c *codec) claimNatively(
	ctx context.Context, s *wire.Sender, claim *store.Claim,
) []store.Grant {
	clock, ok := c.native.May(time.Now())
	if !ok {
		return nil
	}
	job := new(nativeJob)
	key := schema.AppendLockKey(job.text[:0], c.prefix, claim.Name)
	text := schema.Text(schema.AppendYoung(key, claim.Owner, clock,
		c.holderText(claim.Holder, claim.Callers)))
	set := c.builder().Arbitrary("SET").Keys(text[:len(key)]).
		Args(text[len(key):], "NX", "PX", c.ttls.of(claim.TTL)).Build()
	got, token, lost, err := s.Pair(ctx, &job.room, set, c.builder().Incr().Key(c.mark).Build())
	if lost { // a script's answer would hide that SET may be carried out yet
		job.grants[0] = c.noGrant(err)
		return job.grants[:]
	} else if err == nil {
		err = got.Error()
	}
	if err != nil {
		c.native.Refused(c.isFinal(err))
		return nil
	}
	fence, err := token.ToInt64()
	if err != nil {
		c.native.Refused(c.isFinal(err))
		return nil
	}
	if fence > schema.MaxExact || !c.native.Granted(fence, time.Now()) {
		return nil
	}
	job.grants[0] = store.Grant{Status: store.StatusHeld, Fence: fence}
	return job.grants[:]
}

// isFinal reports whether the server will refuse native claims again: it knows
// no such command, or does not let us, or tokens are given there, so that the
// mark is no number.
func (c *codec) isFinal(err error) bool {
	answer, ok := rueidis.IsRedisErr(err)
	return ok && !answer.IsNil() && (c.errors.Definite(answer.Error()) ||
		strings.Contains(answer.Error(), "not an integer"))
}
