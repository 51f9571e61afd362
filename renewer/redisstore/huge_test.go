package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// mostSent is how much of a value acquire.lua sends, in bytes.
const mostSent = 300

// longestReply is a client that notes the longest text of any reply to a
// command.
type longestReply struct {
	rueidis.Client
	longest int
}

func (c *longestReply) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	r := c.Client.Do(ctx, cmd)
	if m, err := r.ToMessage(); err == nil {
		c.note(m)
	}
	return r
}

func (c *longestReply) note(m rueidis.RedisMessage) {
	if text, err := m.ToString(); err == nil {
		c.longest = max(c.longest, len(text))
	}
	parts, _ := m.ToArray()
	for _, p := range parts {
		c.note(p)
	}
}

// A value that a neighbour had made huge went whole to every caller who was
// refused: 100 MiB a try.
func TestAHugeValueIsNotSent(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	client := &longestReply{Client: s.client(t, func(o *rueidis.ClientOption) {
		o.DisableAutoPipelining = true
	})}
	store := storeOn(t, client)
	huge := strings.Repeat("x", 1<<20)
	lease, _ := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
	client.longest = 0 // of what New asks
	waits := claim("a", "a", time.Minute)
	waits.Place = 1
	for _, value := range []string{
		huge, owner("b") + "\n7\n8\n" + huge,
		owner("b") + "\n7\n8\nnode\n1\nop\n\n" + huge,
	} {
		for range 2 { // the second asks for a place in the line
			s.ok(t, "SET", lease, value, "PX", "60000")
			assert.Equal(t, contract.StatusTaken, acquire(t, store, waits).Status)
			assert.Equal(t, contract.StatusTaken,
				store.Acquire(t.Context(),
					[]contract.Claim{
						claim("a", "c", time.Minute),
						claim("other", "a", time.Minute),
					})[0].Status)
			assert.Equal(t, contract.StatusTaken,
				renew(t, store, hold("a", "a", time.Minute)).Status)
			assert.Equal(t, contract.StatusTaken, release(t, store, hold("a", "a", 0)).Status)
			assert.Equal(t, contract.StatusHeld, release(t, store, hold("other", "a", 0)).Status)
		}
	}
	assert.Positive(t, client.longest, "replies are looked at")
	assert.LessOrEqual(t, client.longest, mostSent)
}

// What is cut off is nothing of ours, however long the parts of a holder are.
func TestTheLongestValueIsSentWhole(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	long := strings.Repeat("é", redisstore.MaxPart)
	c := claim("a", "a", time.Minute)
	c.Holder = contract.Holder{
		Node: long, PID: 1<<31 - 1, Operation: long,
		Trace: strings.Repeat("t", 2*redisstore.MaxPart),
	}
	mine(t, store, c)
	lease, _ := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
	assert.LessOrEqual(t, len(s.get(t, lease)), mostSent)
	g := acquire(t, store, claim("a", "b", time.Minute))
	cut := strings.Repeat("é", redisstore.MaxPart/2)
	assert.Equal(t, contract.Holder{
		Node: cut, PID: 1<<31 - 1, Operation: cut,
		Trace: strings.Repeat("t", redisstore.MaxPart),
	}, g.Holder)
}

// A place in the line that is none of ours, or of a later version, is passed over,
// however long it is, and no waiter hears of it. One that is ours hears of its grant, and
// so may a user who may only listen: of the owner token it is told 48 of 128 bits, by
// which others can't forge a message.
func TestPlacesOfAnUnknownForm(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	lease, _ := redisstore.LockKeys(redisstore.DefaultPrefix, "a")
	line := redisstore.LineKey(redisstore.DefaultPrefix, "a")
	mine(t, store, claim("a", "a", time.Minute))
	listening(t, store)
	inbox, id := s.inboxes(t)[0], store.Inbox()
	freed, heard := s.listen(t, lease+":freed"), s.listen(t, inbox)
	stand(t, store, "b")

	huge, whole := strings.Repeat("x", 1<<20), member(7, id, "x", minuteTTL)
	forged := []string{
		huge, "y", "7", "v2:7", owner("c"), "7 " + huge + " 1000",
		member(7, "nobody-listens", "x", minuteTTL), member(7, id+"}", "x", minuteTTL),
		member(7, "*}", "x", minuteTTL), member(7, id, "x", 0), member(7, id, "x", 1<<62),
		whole[1:], "x" + whole[1:], whole[:20],
	}
	for _, claim := range []string{
		"", "1000", owner("x"), owner("x") + " 60000", owner("x") + " -1\nnode\n1\nop",
		owner("x") + " 1x\nnode\n1\nop", "\nnode", "short 60000\nnode\n1\nop",
	} {
		forged = append(forged, "7 "+id+" "+claim, "7 "+id+claim)
	}
	for _, place := range forged {
		s.ok(t, "ZADD", line, "1", place)
	}
	other := s.store(t)
	require.Equal(t, contract.StatusHeld, release(t, other, hold("a", "a", 0)).Status)
	other.Close() // so that it does not look when the grant is over
	assert.Contains(t, s.get(t, lease), owner("b")+"\n")
	assert.Regexp(t, `^98 b{8} \d{16} \d{16}$`, <-heard)
	require.Equal(t, contract.StatusHeld, acquire(t, store, queue("b")).Status)
	require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "b", 0)).Status)
	assert.Empty(t, <-freed, "no waiter of ours was left: all may ask")
	assert.Zero(t, s.number(t, "EXISTS", lease, line))

	args := []string{"ZADD", line}
	for i := range 700 {
		args = append(args, "1", strings.Repeat("z", 30+i))
	}
	mine(t, store, claim("a", "a", time.Minute))
	waitedFor(t, store, "a")
	s.ok(t, args...)
	s.ok(t, "PEXPIRE", line, "60000")
	require.Equal(t, contract.StatusHeld, release(t, store, hold("a", "a", 0)).Status)
	assert.Empty(t, <-freed)
	assert.InDelta(t, 200, s.number(t, "ZCARD", line), 1,
		"a release looks at five hundred at most, or one more")
	assert.Zero(t, s.number(t, "EXISTS", lease))
	assert.Empty(t, heard)
}

// inboxes are the channels of all stores that listen for turns.
func (s server) inboxes(t *testing.T) (all []string) {
	t.Helper()
	require.Eventually(t, func() bool {
		var err error
		all, err = s.do(t, "PUBSUB", "CHANNELS", redisstore.DefaultPrefix+"{*}:inbox").AsStrSlice()
		return err == nil && len(all) > 0
	}, patience, time.Millisecond)
	return all
}

// listen returns the messages on channels from now on.
func (s server) listen(t *testing.T, channels ...string) <-chan string {
	t.Helper()
	heard := make(chan string, 100)
	client := s.client(t)
	ready := make(chan struct{})
	ctx, cancel := context.WithCancel(rueidis.WithOnSubscriptionHook(t.Context(),
		func(rueidis.PubSubSubscription) {
			close(ready)
		}))
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = client.Receive(ctx, client.B().Subscribe().Channel(channels...).Build(),
			func(m rueidis.PubSubMessage) {
				heard <- m.Message
			})
	}()
	t.Cleanup(func() { cancel(); <-over })
	<-ready
	return heard
}

// A record of any size went whole to every caller who looked at it.
func TestAHugeRecordIsRefused(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	client := &longestReply{Client: s.client(t, func(o *rueidis.ClientOption) {
		o.DisableAutoPipelining = true
	})}
	store := storeOn(t, client)
	most := strings.Repeat("x", redisstore.MaxRecord)
	s.ok(t, "SET", recordA, "9007199254740990 9007199254740990 9007199254740990\n"+most, "PX",
		"60000")
	seen := look(t, store, "a", 0, 0)
	require.NoError(t, seen.Err)
	assert.Len(t, seen.Data, redisstore.MaxRecord)
	s.ok(t, "APPEND", recordA, strings.Repeat("y", 100))
	client.longest = 0
	for _, fence := range []int64{0, 5} {
		seen = look(t, store, "a", fence, time.Minute)
		assert.Equal(t, contract.StatusUnknown, seen.Status)
		require.ErrorIs(t, seen.Err, renewer.ErrRejected)
		assert.ErrorContains(t, seen.Err,
			recordA+" has 16777367 bytes, more than any of ours; delete the key")
	}
	assert.Zero(t, client.longest)

	s.ok(t, "DEL", recordA)
	look(t, store, "a", 5, time.Minute)
	answer := write(t, store, "a", 5, 1, most+"x")
	assert.Equal(t, contract.StatusUnknown, answer.Status)
	require.ErrorIs(t, answer.Err, renewer.ErrRejected)
	assert.ErrorContains(t, answer.Err, "16777217 bytes, above the limit of 16777216")
	term := contract.Term{Name: "a", Fence: 6, TTL: time.Minute, Data: most + "x"}
	assert.ErrorIs(t, store.Prepare(t.Context(), []contract.Term{term})[0].Err, renewer.ErrRejected)
}
