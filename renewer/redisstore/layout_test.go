package redisstore_test

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	internal "github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// layout is each key and channel of ours while there is one of everything that
// is kept. Programs of other versions read and write these beside us. So a
// change of a line here is a change of what may run beside what:
// docs/compatibility.md says so, and othersvalues_test.go gets the former
// value.
const layout = `
key lockbeat:{%}:mark "gTIME"
key lockbeat:{INBOX}:process "VERSION\n1\nnode-b\n42\ntest\n2\nnode-c\n42\n\n3\nnode-d\n42\n"
key lockbeat:{answering} "OWNER\nTIME\nTIME\nnode-a\n42\ntest\n\n19"
key lockbeat:{broken} "!TAIL\nTIME\nTIME\nnode-a\n42\ntest"
key lockbeat:{broken}:broken:!TAIL "broken\nme\nwhy"
key lockbeat:{given} "OWNER\n8000000000000000\nTIME\nnode-a\n42\ntest"
key lockbeat:{given}:fence "8000000000000005"
key lockbeat:{limited}:slots "OWNER" TIME
key lockbeat:{limited}:slots:holders "+" "" "OWNER" "TIME\nTIME\nnode-a\n42\n"
key lockbeat:{limited}:slots:waiters "3 INBOX TURN" TIME
key lockbeat:{newest} "OWNER\nTIME\nTIME\nnode-a\n42\ntest"
key lockbeat:{newest}:begun "7\nTIME"
key lockbeat:{newest}:newest "OWNER\nTIME\n7\nnode-a\n42"
key lockbeat:{order:42} "OWNER\nTIME\nTIME\nnode-a\n42\ntest\nTRACE\n+"
key lockbeat:{order:42}:homes ":HOME" TIME
key lockbeat:{order:42}:slot:HOME "q\n1"
key lockbeat:{order:42}:tasks:HOME "q\n2" TIME
key lockbeat:{order:42}:waiters "1 INBOX bbbbbbbbbbbbbbbbbbbbbb 3600000\nnode-b\n42\ntest" TIME
key lockbeat:{passed} "cccccccccccccccccccccc\nTIME\nTIME\nnode-c\n42\n\n+"
key lockbeat:{passed}:record "8000000000000000 8000000000000000 1\nany text"
key lockbeat:{woken}:homes ":HOME" TIME
key lockbeat:{woken}:tasks:HOME "q\n1" TIME
key lockbeat:{woken}:woken:HOME "q\n1" "TIME"
channel lockbeat:{INBOX}:inbox
channel lockbeat:{limited}:slots:freed
channel lockbeat:{node-a 42}:process
channel lockbeat:{order:42}:freed
channel lockbeat:{passed}:freed
`

// layoutOfCluster is what is otherwise there.
const layoutOfCluster = `
key lockbeat:{INBOX}:process "VERSION\n1\nnode-b\n42\ntest"
key lockbeat:{NUMBER}:mark "TIME"
key lockbeat:{order:42} "OWNER\nTIME\nTIME\nnode-a\n42\ntest\n+"
key lockbeat:{order:42}:waiters "1 INBOX bbbbbbbbbbbbbbbbbbbbbb 3600000\nnode-b\n42\ntest" TIME
channel lockbeat:{order:42}:freed
channel lockbeat:{order:42}:inbox:INBOX
`

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestLayout(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.storeForLayout(t)

	const at = 8_000_000_000_000_000
	lock := claim("order:42", "a", time.Hour)
	lock.Holder.Trace = traceparent
	mine(t, store, lock)
	stands(t, store, claim("order:42", "b", time.Hour), 1)
	for _, id := range []string{"1", "2"} {
		one := internal.Arrival{
			Name: internal.Name{Text: "order:42"}, SlotTTL: time.Hour, Wait: true, Task: task(id),
		}
		one.Task.Home = "HOME"
		_, err := store.Arrive(t.Context(), one)
		require.NoError(t, err)
	}

	mine(t, store, claim("passed", "a", time.Hour))
	second := claim("passed", "c", time.Hour)
	second.Holder.Operation = ""
	stands(t, store, second, 2)
	require.Equal(t, contract.StatusHeld, release(t, store, hold("passed", "a", 0)).Status)
	begun := contract.Term{Name: "passed", Fence: at, TTL: time.Hour, Data: "any text"}
	require.NoError(t, store.Prepare(t.Context(), []contract.Term{begun})[0].Err)

	mine(t, store, claim("woken", "a", time.Hour))
	one := task("1")
	one.Home = "HOME"
	woken := internal.Name{Text: "woken"}
	_, err := store.Arrive(t.Context(),
		internal.Arrival{Name: woken, SlotTTL: time.Hour, Task: one})
	require.NoError(t, err)
	release(t, store, hold("woken", "a", 0))
	_, err = store.Next(t.Context(), woken, 0, internal.TasksOver, internal.Task{Home: "HOME"})
	require.NoError(t, err)

	fence := mine(t, store, claim("broken", "a", time.Hour))
	require.NoError(t, store.Break(t.Context(), contract.Breaking{
		Name: "broken", Fence: fence, Broken: contract.Broken{By: "me", Why: "why"},
	}).Err)
	newest := claim("newest", "a", time.Hour)
	newest.Newness.Rank = 7
	newest.Newness.Since, err = store.Replace(t.Context(), internal.Replacement{
		Name: "newest", Owner: newest.Owner, By: newest.Holder, Newness: newest.Newness,
	})
	require.NoError(t, err)
	mine(t, store, newest)

	behind := claim("answering", "a", time.Hour)
	behind.Callers = 19
	mine(t, store, behind)
	for i, letter := range []string{"a", "d"} {
		slot := claim("limited", letter, time.Hour)
		slot.Holder.Operation = ""
		if slot.Limit = 1; i == 0 {
			mine(t, store, slot)
		} else {
			stands(t, store, slot, 3)
		}
	}
	given := internal.Proposal{Claim: claim("given", "a", time.Hour), Fence: at, Reserve: 5}
	require.NoError(t, store.Propose(t.Context(), []internal.Proposal{given})[0].Err)
	t.Cleanup(store.OnBreak(lock.Holder, func(string, bool) {}))
	s.awaitLayout(t, store, layout)
	s.pttl(t, redisstore.FaceKey(redisstore.DefaultPrefix, store), 1, minute)
}

func TestLayoutOfACluster(t *testing.T) {
	t.Parallel()
	s := startCluster(t)
	store := s.storeForLayout(t)
	mine(t, store, claim("order:42", "a", time.Hour))
	stands(t, store, claim("order:42", "b", time.Hour), 1)
	s.awaitLayout(t, store, layoutOfCluster)
}

// storeForLayout is one whose places are shown soon.
func (s server) storeForLayout(t *testing.T) *redisstore.Engine {
	t.Helper()
	store := s.store(t)
	store.LongWait(10 * time.Millisecond)
	return store
}

// stands has a claim stand in line, until the test ends.
func stands(t *testing.T, store *redisstore.Engine, c contract.Claim, place uint64) {
	t.Helper()
	c.Place = place
	store.Took(20 * time.Second) // so that its turn does not lapse here
	acquire(t, store, c)         // is refused, so that it waits
	t.Cleanup(store.Watch(c.Name, c.Limit != 0, func(error) {}))
	require.Eventually(t, func() bool {
		return acquire(t, store, c).Status == contract.StatusQueued
	}, patience, time.Millisecond)
}

// awaitLayout waits until what is on the server is what want says, since some
// of it is written behind the calls.
func (s server) awaitLayout(t *testing.T, store *redisstore.Engine, want string) {
	t.Helper()
	var got string
	assert.Eventually(t, func() bool {
		got = s.layout(t, store)
		return got == want
	}, patience, 10*time.Millisecond)
	assert.Equal(t, want, got)
}

var (
	anyTime   = regexp.MustCompile(`[12]\d{15}`) // until 2065
	anyTurn   = regexp.MustCompile(`(INBOX )\d+000`)
	anyNumber = regexp.MustCompile(`\{\d+\}:mark`)
	anyFace   = regexp.MustCompile(`(:process ")[^\\"]*`)
)

// allChannels are those that have subscribers, those of a shard's messages
// included.
func (s server) allChannels(t testing.TB) []string {
	t.Helper()
	all := s.texts(t, "PUBSUB", "CHANNELS")
	if s.sharded(t) {
		all = append(all, s.texts(t, "PUBSUB", "SHARDCHANNELS")...)
	}
	return all
}

// sharded reports whether the server knows messages within a shard, as Redis
// does since 7.
func (s server) sharded(t testing.TB) bool {
	t.Helper()
	return s.do(t, "PUBSUB", "SHARDCHANNELS").Error() == nil
}

// layout is what is on the server, without what differs each time.
func (s server) layout(t *testing.T, store *redisstore.Engine) string {
	t.Helper()
	var lines []string
	for _, key := range s.texts(t, "KEYS", "*") {
		lines = append(lines, "key "+key+s.valueOf(t, key))
		require.Positive(t, s.number(t, "PTTL", key), "%s has no TTL", key)
	}
	for _, channel := range s.allChannels(t) {
		lines = append(lines, "channel "+channel)
	}
	for i := range lines {
		line := strings.NewReplacer(store.Inbox(), "INBOX", owner("a"), "OWNER",
			owner("a")[1:], "TAIL", traceparent, "TRACE").Replace(lines[i])
		line = anyTurn.ReplaceAllString(anyTime.ReplaceAllString(line, "TIME"), "${1}TURN")
		line = anyNumber.ReplaceAllString(line, "{NUMBER}:mark")
		lines[i] = anyFace.ReplaceAllString(line, "${1}VERSION")
	}
	slices.SortFunc(lines, func(a, b string) int { // keys, then channels
		return cmp.Or(-cmp.Compare(a[:3], b[:3]), cmp.Compare(a, b))
	})
	return "\n" + strings.Join(lines, "\n") + "\n"
}

// valueOf is what a key holds, piece by piece.
func (s server) valueOf(t *testing.T, key string) (text string) {
	t.Helper()
	kind, err := s.do(t, "TYPE", key).ToString()
	require.NoError(t, err)
	switch kind {
	case "zset":
		members, err := s.do(t, "ZRANGE", key, "0", "-1", "WITHSCORES").AsZScores()
		require.NoError(t, err)
		for _, m := range members {
			text += fmt.Sprintf(" %q %.0f", m.Member, m.Score)
		}
	case "hash":
		fields, err := s.do(t, "HGETALL", key).AsStrMap()
		require.NoError(t, err)
		for _, field := range slices.Sorted(maps.Keys(fields)) {
			text += fmt.Sprintf(" %q %q", field, fields[field])
		}
	default:
		text = fmt.Sprintf(" %q", s.get(t, key))
	}
	return text
}

func (s server) texts(t testing.TB, args ...string) []string {
	t.Helper()
	all, err := s.do(t, args...).AsStrSlice()
	require.NoError(t, err)
	return all
}
