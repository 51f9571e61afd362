package redisstore_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	internal "github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// listed returns what is listed, by name, "limit of" before a limit's. None is
// listed twice.
func listed(
	t testing.TB, s *redisstore.Engine, want func(string, bool) bool,
) map[string]contract.Lock {
	t.Helper()
	all := make(map[string]contract.Lock)
	for lock, err := range s.List(t.Context(), want) {
		require.NoError(t, err)
		name := lock.Name
		if lock.Limit {
			name = "limit of " + name
		}
		_, twice := all[name] // NotContains would look at each of them
		require.False(t, twice, name)
		all[name] = lock
	}
	return all
}

func slotClaim(name, letter string, limit int) contract.Claim {
	c := claim(name, letter, time.Minute)
	c.Limit = limit
	return c
}

// Whatever stands beside locks under their prefix, and where another program has taken a
// lock's key. What is ours is listed as the conformance suite says.
func TestList(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("order:42", "a", time.Minute))
	mine(t, store, slotClaim("order:42", "a", 3))
	mine(t, store, slotClaim("order:42", "b", 3))
	const prefix = redisstore.DefaultPrefix
	for key, value := range map[string]string{
		"{}": "no name", "{%41}": "not as we escape", "{a}b}": "no name", "other": "no name",
		"{order:42}:record": "a record",
		"{foreign}":         "another program's", "{empty}": "",
	} {
		s.ok(t, "SET", prefix+key, value, "PX", "60000")
	}
	s.ok(t, "LPUSH", prefix+"{foreign list}", "x")
	s.ok(t, "SET", prefix+"{foreign limit}:slots", "x")
	s.ok(t, "ZADD", prefix+"{lapsed}:slots", "1", owner("x"))
	// A slot that is freed while it is read: it is in the set, and in the
	// hash no more.
	const never = "9000000000000000"
	s.ok(t, "ZADD", prefix+"{order:42}:slots", never, owner("x"))
	s.ok(t, "ZADD", prefix+"{just freed}:slots", never, owner("x"))

	all := listed(t, store, nil)
	foreign := []string{"foreign", "empty", "foreign list", "limit of foreign limit"}
	assert.ElementsMatch(t, append([]string{"order:42", "limit of order:42"}, foreign...),
		slices.Collect(maps.Keys(all)))
	for name, lock := range all {
		assert.Equal(t, slices.Contains(foreign, name), lock.Foreign, name)
	}
	slots := all["limit of order:42"].Slots
	require.Len(t, slots, 2)
	for _, slot := range slots {
		assert.Contains(t, []string{"node-a", "node-b"}, slot.Node)
		assert.Positive(t, slot.Fence)
	}
	assert.Empty(t, showOf(t, store, "just freed", true).Slots)
}

// Those who wait are counted wherever they stand, also while the lock is
// between two owners; places alone are of the dead.
func TestWhoWaitsIsListed(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	comes := func(name, home string, limit, n int) {
		t.Helper()
		for i := range n {
			one := task(fmt.Sprint(i))
			one.Home = home
			_, err := store.Arrive(t.Context(), internal.Arrival{
				Name: internal.Name{Text: name, Limit: limit != 0}, Limit: limit,
				SlotTTL: 5 * time.Second, Task: one,
			})
			require.NoError(t, err)
		}
	}
	held := claim("a", "a", time.Minute)
	held.Callers = 19
	mine(t, store, held)
	mine(t, store, slotClaim("a", "a", 1))
	listening(t, store)
	stand(t, store, "b")
	stand(t, store, "c")
	comes("a", "", 0, 30)
	comes("a", "ONE", 0, 20)
	comes("a", "ONE", 1, 7)
	mine(t, store, claim("free", "a", time.Minute))
	comes("free", "", 0, 5)
	release(t, store, hold("free", "a", 0))
	s.ok(t, "ZADD", "lockbeat:{dead}:waiters", "1", "7 INBOX 1000")
	s.ok(t, "ZADD", "lockbeat:{a}:tasks:{b}", "1", "q\n1") // no home of ours, and no harm

	all := listed(t, store, nil)
	assert.Len(t, all, 3)
	got := all["a"]
	assert.Equal(t, []int{2, 51, 19, 72},
		[]int{got.Waiting, got.Tasks, got.Callers(), got.WaitingInAll()})
	assert.Equal(t, 7, all["limit of a"].WaitingInAll())
	assert.Equal(t, contract.Lock{Name: "free", Tasks: 5, At: all["free"].At}, all["free"])
	assert.Equal(t, 71, show(t, store, "a").WaitingInAll(), "by the homes that are noted")
	assert.Equal(t, 7, showOf(t, store, "a", true).WaitingInAll())
	assert.Len(t, listed(t, store, func(name string, limit bool) bool {
		return name == "free"
	}), 1)
}

// What a lease that is broken looks like, and who broke it; a record that is
// not there, or is no such record, hides nothing.
func TestBrokenLeasesAreShown(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	broken := "!" + strings.Repeat("a", contract.OwnerLen-1)
	for name, record := range map[string]string{
		"by hand": "broken\nalice\nhangs", "replaced": "replaced\nb\x1bob\nnewer\nmore",
		"by force": "forced\n\n", "unknown": "",
	} {
		key := redisstore.LeaseKey(redisstore.DefaultPrefix, name)
		s.ok(t, "SET", key, broken+"\n5\n1000\nnode\n42\nop", "PX", "60000")
		limit := slotsKey(name)
		s.ok(t, "ZADD", limit, fmt.Sprint(time.Now().Add(time.Minute).UnixMicro()), broken)
		s.ok(t, "HSET", limit+":holders", broken, "5\n1000\nnode\n42\nop")
		if record != "" {
			s.ok(t, "SET", key+":broken:"+broken, record)
			s.ok(t, "SET", limit+":broken:"+broken, record)
		}
	}
	all := listed(t, store, nil)
	for _, before := range []string{"", "limit of "} {
		for name, want := range map[string]contract.Broken{
			"by hand":  {By: "alice", Why: "hangs"},
			"replaced": {By: "bob", Why: "newer", Replaced: true},
			"by force": {Force: true}, "unknown": {},
		} {
			slots := all[before+name].Slots
			require.Len(t, slots, 1, before+name)
			assert.Equal(t, &want, slots[0].Broken, before+name)
			assert.Equal(t, int64(5), slots[0].Fence)
			assert.Equal(t, "node pid 42 (op)", slots[0].String())
		}
	}
}

// standShown has places of a store stand in line, and awaits that another shows
// whose they are.
func standShown(t *testing.T, store, other *redisstore.Engine) {
	t.Helper()
	store.LongWait(10 * time.Millisecond)
	mine(t, other, claim("a", "a", time.Minute))
	listening(t, store)
	stand(t, store, "b")
	stand(t, store, "c")
	var lock contract.Lock
	require.Eventually(t, func() bool {
		lock = show(t, other, "a")
		return lock.Places[1].Operation != ""
	}, patience, 5*time.Millisecond)
	for i, letter := range []string{"b", "c"} {
		assert.Equal(t, claim("a", letter, 0).Holder, lock.Places[i].Holder)
	}
}

// On a cluster each primary is asked. A frozen one does not hide the locks of
// the others.
func TestListAndShowOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	store := clusterStore(t, cluster, renewer.DefaultTTL)
	const n = 60
	here := 0
	for i := range n {
		name := fmt.Sprint("name ", i)
		mine(t, store, claim(name, "a", time.Minute))
		mine(t, store, slotClaim(name, "a", 2))
		if masterOf(t, cluster, name) == cluster.Masters[0] {
			here++
		}
	}
	assert.Len(t, listed(t, store, nil), 2*n)
	lock, err := store.Show(t.Context(), "name 7", true)
	require.NoError(t, err)
	assert.True(t, lock.Limit)
	require.Len(t, lock.Slots, 1)
	assert.Equal(t, "node-a", lock.Slots[0].Node)

	for _, m := range cluster.Masters {
		args := append([]string{"ACL", "SETUSER", "looks"}, scope(redisstore.DefaultPrefix)...)
		args = append(args, strings.Fields(redisstore.LookRights+" +cluster|slots +cluster|shards")...)
		require.NoError(t, m.Do(args...).Error())
	}
	onlooker := storeOn(t, cluster.Client(t, func(o *rueidis.ClientOption) {
		o.Username, o.Password = "looks", "secret"
	}), redisstore.ToInspect())
	assert.Len(t, listed(t, onlooker, nil), 2*n)
	_, err = onlooker.Show(t.Context(), "name 7", false)
	require.NoError(t, err)
	refused := acquire(t, onlooker, claim("name 7", "b", time.Minute))
	require.ErrorContains(t, refused.Err, "made with ToInspect, and takes no locks")

	waiter := clusterStore(t, cluster, renewer.DefaultTTL)
	for masterOf(t, cluster, waiter.Inbox()) != cluster.Masters[0] {
		waiter = clusterStore(t, cluster, renewer.DefaultTTL)
	}
	standShown(t, waiter, store)
	hasty := clusterStore(t, cluster, 3*time.Second) // it does not wait for long

	t.Log("one is frozen: not that of the lock, but of who waits for it")
	require.NotEqual(t, cluster.Masters[0], masterOf(t, cluster, "a"))
	require.NoError(t, cluster.Masters[0].Stop())
	defer func() { require.NoError(t, cluster.Masters[0].Cont()) }()
	require.Eventually(t, func() bool { // a busy machine may keep the others from answering, too
		lock, err = hasty.Show(t.Context(), "a", false)
		return err == nil
	}, patience, time.Millisecond)
	require.Len(t, lock.Places, 2)
	assert.Empty(t, lock.Places[0].Node)
	require.Eventually(t, func() bool {
		seen, errs := 0, 0
		for lock, err := range hasty.List(t.Context(), nil) {
			if err != nil {
				errs++
			} else if lock.Name != "a" {
				assert.Zero(t, errs, "they come at the end")
				seen++
			}
		}
		return errs == 1 && seen == 2*(n-here)
	}, patience, time.Millisecond)
}

// A list of many locks takes a short time.
func TestListOfManyLocks(t *testing.T) {
	t.Parallel()
	suite.OnlyLong(t)
	_, s := startReal(t)
	store := s.store(t)
	const n, step = 100_000, 1000
	for from := 0; from < n; from += step {
		claims := make([]contract.Claim, step)
		for i := range claims {
			claims[i] = claim(fmt.Sprint("account:", from+i), "a", time.Hour)
		}
		for _, grant := range store.Acquire(t.Context(), claims) {
			require.NoError(t, grant.Err)
		}
	}
	begun := time.Now()
	assert.Len(t, listed(t, store, nil), n)
	assert.Less(t, time.Since(begun), 10*time.Second)
}
