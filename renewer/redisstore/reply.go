package redisstore

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

// Replies come from a server that we do not run. One that our script can't have given is
// StatusUnknown, with an error: it is never taken for a grant.

// readGrant reads the reply of acquire.lua to a claim that proposed a
// token, or 0, and asked to reserve so many more. since is when its place came, in us; 0 if it has
// none.
func readGrant(
	reply rueidis.RedisMessage, proposed int64, reserve int,
) (g renewer.Grant, since int64, ok bool) {
	if reply.IsInt64() {
		g, ok = readFence(reply, proposed)
		return g, 0, ok
	}
	g, since, ok = readParts(reply, proposed, reserve)
	if !ok {
		return renewer.Grant{}, 0, false
	}
	return g, since, true
}

// readParts reads a reply of several parts.
func readParts(
	reply rueidis.RedisMessage, proposed int64, reserve int,
) (g renewer.Grant, since int64, ok bool) {
	parts, err := reply.ToArray()
	if err == nil && len(parts) == 2 {
		n, err := parts[1].ToInt64()
		if g, ok = readFence(parts[0], proposed); !ok || err != nil || n < 1 ||
			n > int64(reserve) || g.Fence > maxExact-n {
			return g, 0, false
		}
		g.Reserved = int(n)
		return g, 0, true
	}
	if err == nil && len(parts) == 1 {
		counter, err := parts[0].ToInt64()
		if err != nil || proposed == 0 || counter < proposed || counter > maxExact {
			return g, 0, false
		}
		return renewer.Grant{Status: renewer.StatusBehind, Fence: counter}, 0, true
	}
	if err != nil || len(parts) < 3 || len(parts) > 4 || !parts[0].IsString() {
		return g, 0, false
	}
	if len(parts) == 4 {
		since, err = parts[3].ToInt64()
		if err != nil || since < 1 || since > maxExact {
			return g, 0, false
		}
	}
	value, err0 := parts[0].ToString()
	left, err1 := parts[1].ToInt64()
	now, err2 := parts[2].ToInt64()
	if err0 != nil || err1 != nil || err2 != nil {
		return g, 0, false
	}
	holder, begun := decodeValue(value)
	g = renewer.Grant{
		Status: renewer.StatusTaken, Holder: holder, TTL: millis(left),
	}
	if begun > 0 && now > begun && now <= maxExact {
		g.HeldFor = time.Duration(now-begun) * time.Microsecond // at most 2^53 us: no overflow
	}
	return g, since, true
}

// readFence reads the token of a grant.
func readFence(reply rueidis.RedisMessage, proposed int64) (g renewer.Grant, ok bool) {
	fence, err := reply.ToInt64()
	if err != nil || fence < 1 || fence > maxExact || proposed != 0 && fence != proposed {
		return g, false
	}
	return renewer.Grant{Status: renewer.StatusHeld, Fence: fence}, true
}

// millis converts a remaining time to live. A key in its last
// millisecond has PTTL 0, which is not "unknown".
func millis(n int64) time.Duration {
	switch {
	case n < 0, n > math.MaxInt64/int64(time.Millisecond):
		return 0
	case n == 0:
		return time.Millisecond
	default:
		return time.Duration(n) * time.Millisecond
	}
}

// readAnswers reads the reply of renew.lua or release.lua into answers, one a key: the
// positions of the exceptions, in order, and those of leases that have become turns, which it
// returns with how long these are. If it returns false, answers is as it was.
func readAnswers(
	reply rueidis.RedisMessage, answers []renewer.Answer,
) (turns map[int]time.Duration, ok bool) {
	lost, err := reply.ToArray()
	if err != nil || len(lost) > 2*len(answers) {
		return nil, false
	}
	for len(lost) > 0 && lost[len(lost)-1].IsString() {
		text, _ := lost[len(lost)-1].ToString()
		lost = lost[:len(lost)-1]
		position, turn, ok := readTurn(text)
		if !ok || position >= len(answers) {
			return nil, false
		}
		if turns == nil {
			turns = make(map[int]time.Duration, 1)
		}
		turns[position] = turn
	}
	last := int64(0)
	for i := range lost {
		n, err := lost[i].ToInt64()
		n = max(n, -n) // of the smallest integer this is negative, and refused below
		if err != nil || n <= last || n > int64(len(answers)) {
			return nil, false
		}
		last = n
	}
	for i := range answers {
		answers[i].Status = renewer.StatusHeld
	}
	for i := range lost {
		if n, _ := lost[i].ToInt64(); n > 0 {
			answers[n-1].Status = renewer.StatusTaken
		} else {
			answers[-n-1].Status = renewer.StatusGone
		}
	}
	return turns, true
}

// readTurn reads "POSITION TURN", the first counted from 1, the other in ms.
func readTurn(text string) (position int, turn time.Duration, ok bool) {
	first, second, _ := strings.Cut(text, " ")
	n, err := strconv.ParseUint(first, 10, 16)
	ms, err2 := strconv.ParseUint(second, 10, 16)
	if err != nil || err2 != nil || n == 0 {
		return 0, 0, false
	}
	return int(n) - 1, time.Duration(ms) * time.Millisecond, true
}
