package redisstore

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Replies come from a server that we do not run. One that our script can't have
// given is StatusUnknown, with an error: it is never taken for a grant.

// readGrant reads the reply of acquire.lua, or of propose.lua to a token that
// was proposed, 0 for none. since is when its place came, in us; 0 if it has
// none.
func readGrant(
	reply rueidis.RedisMessage, proposed int64,
) (g store.Grant, since int64, ok bool) {
	if reply.IsInt64() {
		g, ok = readFence(reply, proposed)
		return g, 0, ok
	}
	g, since, ok = readParts(reply, proposed)
	if !ok {
		return store.Grant{}, 0, false
	}
	return g, since, true
}

// readParts reads a reply of several parts.
func readParts(
	reply rueidis.RedisMessage, proposed int64,
) (g store.Grant, since int64, ok bool) {
	parts, err := reply.ToArray()
	if err == nil && len(parts) == 2 {
		n, err := parts[1].ToInt64()
		if g, ok = readFence(parts[0], proposed); !ok || err != nil || n < 0 ||
			n > store.MaxReserved || g.Fence > schema.MaxExact-n {
			return g, 0, false
		}
		g.Reserved = int(n)
		return g, 0, true
	}
	if err == nil && len(parts) == 1 {
		counter, err := parts[0].ToInt64()
		if err != nil || proposed == 0 || counter < proposed || counter > schema.MaxExact {
			return g, 0, false
		}
		return store.Grant{Status: store.StatusBehind, Fence: counter}, 0, true
	}
	if err != nil || len(parts) < 3 || len(parts) > 4 || !parts[0].IsString() {
		return g, 0, false
	}
	if len(parts) == 4 {
		since, err = parts[3].ToInt64()
		if err != nil || since < 1 || since > schema.MaxExact {
			return g, 0, false
		}
	}
	value, err0 := parts[0].ToString()
	left, err1 := parts[1].ToInt64()
	now, err2 := parts[2].ToInt64()
	if err0 != nil || err1 != nil || err2 != nil {
		return g, 0, false
	}
	holder, begun := schema.DecodeValue(value)
	g = store.Grant{
		Status: store.StatusTaken, Holder: holder, HeldFor: schema.HeldFor(begun, now),
		TTL: schema.Millis(left), Foreign: begun == 0,
	}
	return g, since, true
}

// readSlot reads the reply of slots_acquire.lua, as readGrant does. No slot's
// token is proposed.
func readSlot(reply rueidis.RedisMessage, _ int64) (g store.Grant, since int64, ok bool) {
	if reply.IsInt64() {
		g, ok = readFence(reply, 0)
		return g, 0, ok
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) != 5 || !parts[0].IsString() {
		return g, 0, false
	}
	var numbers [4]int64 // ms, now, since, held
	for i := range numbers {
		numbers[i], err = parts[i+1].ToInt64()
		if err != nil || numbers[i] < 0 || numbers[i] > schema.MaxExact {
			return g, 0, false
		}
	}
	value, err := parts[0].ToString()
	if err != nil || numbers[3] > math.MaxInt32 {
		return g, 0, false
	}
	holder, begun := schema.DecodeValue(value)
	return store.Grant{
		Status: store.StatusTaken, Holder: holder, HeldFor: schema.HeldFor(begun, numbers[1]),
		TTL: schema.Millis(numbers[0]), Held: int(numbers[3]),
	}, numbers[2], true
}

// readFence reads the token of a grant.
func readFence(reply rueidis.RedisMessage, proposed int64) (g store.Grant, ok bool) {
	fence, err := reply.ToInt64()
	if err != nil || fence < 1 || fence > schema.MaxExact || proposed != 0 && fence != proposed {
		return g, false
	}
	return store.Grant{Status: store.StatusHeld, Fence: fence}, true
}

// readAnswers reads the reply of renew.lua or release.lua into answers, one a
// key: the positions of the exceptions, in order, with what has the key if it
// is not gone; and those of leases that were granted on, or slots that are
// kept, which it returns with for how long. If it returns false, answers is as
// it was.
func readAnswers(
	reply rueidis.RedisMessage, answers []store.Answer,
) (turns map[int]time.Duration, ok bool) {
	parts, err := reply.ToArray()
	if err != nil || len(parts) > 2*len(answers) {
		return nil, false
	}
	exceptions, rest, ok := readExceptions(parts, len(answers))
	if !ok {
		return nil, false
	}
	for i := range rest {
		text, err := rest[i].ToString()
		position, turn, ok := readTurn(text)
		if err != nil || !ok || position >= len(answers) {
			return nil, false
		}
		if turns == nil {
			turns = make(map[int]time.Duration, 1)
		}
		turns[position] = turn
	}
	for i := range answers {
		answers[i].Status = store.StatusHeld
	}
	for _, e := range exceptions {
		a := &answers[e.position]
		if a.Status = e.status; e.status == store.StatusTaken {
			readTaker(a, e.value)
		}
	}
	return turns, true
}

// exception is a key that is not its owner's any more.
type exception struct {
	position int
	status   store.Status
	value    string // of the key, when StatusTaken
}

// readExceptions reads those that a reply about n keys begins with, and returns
// the rest of it.
func readExceptions(
	parts []rueidis.RedisMessage, n int,
) (exceptions []exception, rest []rueidis.RedisMessage, ok bool) {
	last := int64(0)
	for len(parts) > 0 && parts[0].IsInt64() {
		position, _ := parts[0].ToInt64()
		parts = parts[1:]
		e := exception{status: store.StatusGone}
		if position > 0 {
			if len(parts) == 0 || !parts[0].IsString() {
				return nil, nil, false
			}
			e.status = store.StatusTaken
			e.value, _ = parts[0].ToString()
			parts = parts[1:]
		} else {
			position = -position // of the smallest integer this is negative, and refused below
		}
		if position <= last || position > int64(n) {
			return nil, nil, false
		}
		last, e.position = position, int(position)-1
		exceptions = append(exceptions, e)
	}
	return exceptions, parts, true
}

// readTurn reads "POSITION TURN", the first counted from 1, the other in ms.
func readTurn(text string) (position int, turn time.Duration, ok bool) {
	first, second, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(first, 10, 16)
	ms, err2 := strconv.ParseUint(second, 10, 31)
	if err != nil || err2 != nil || n == 0 {
		return 0, 0, false
	}
	return int(n) - 1, time.Duration(ms) * time.Millisecond, true
}

// readTaker says, in the answer for a lease that is not its owner's any more,
// what has its key, or that it was broken.
func readTaker(a *store.Answer, value string) {
	if a.Broken = schema.ReadBroken(value); a.Broken != nil {
		if !a.Broken.Force {
			a.Status = store.StatusBroken
		}
		return
	}
	if holder, since := schema.DecodeValue(value); since != 0 {
		a.Holder = &holder
	} else {
		a.Foreign = true
	}
}
