package locks_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// crowd has n callers of a process wait for a lock until the test ends.
func crowd(t *testing.T, k *renewer.Keeper, name string, n int, more ...renewer.Request) {
	t.Helper()
	r := append(more, renewer.Request{})[0]
	r.Name = name
	ctx, cancel := context.WithCancel(t.Context())
	var callers sync.WaitGroup
	for range n {
		callers.Go(func() {
			if lease, err := k.Acquire(ctx, r); err == nil {
				_ = lease.Release(context.Background())
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		callers.Wait()
	})
}

// park has n tasks stand in line for a lock.
func (s site) park(t *testing.T, name string, n int) {
	t.Helper()
	locks, err := redisstore.Open(t.Context(),
		redisstore.Deployment{Option: s.ClientOption(), TTL: patience})
	require.NoError(t, err)
	defer locks.Close()
	line := locks.Engine().(contract.Line)
	for i := range n {
		arrived, err := line.Arrive(t.Context(), contract.Arrival{
			Name: contract.Name{Text: name}, SlotTTL: patience,
			Task: contract.Task{Home: "REDIS", Queue: "default", ID: fmt.Sprint(i)},
		})
		require.NoError(t, err)
		require.False(t, arrived.Ask)
	}
}

// Who waits is counted wherever it waits: in the holder's own process, in
// others, and in a queue of tasks. Nobody was said to wait beside 19 callers,
// or 9,500 tasks.
func TestWhoWaits(t *testing.T) {
	t.Parallel()
	s := start(t)
	const ttl = 3 * time.Second
	k := s.keeper(t, "web-1", ttl)
	hold(t, k, "quiet")
	hold(t, k, "few")
	s.wait(t, s.keeper(t, "web-2", ttl), "few")
	hold(t, k, "account:big", renewer.Request{Operation: "charge"})
	assert.Contains(t, s.ok(t, "show", "account:big", "--look", "0"),
		"\nwaiting    nobody, by the holder's last heartbeat\n")
	crowd(t, k, "account:big", 19)
	for _, node := range []string{"web-2", "web-3"} {
		crowd(t, s.keeper(t, node, ttl), "account:big", 3)
	}
	s.park(t, "account:big", 50)
	require.Eventually(t, func() bool {
		locks, _, _ := decode(t, s.ok(t, "ls", "account:big", "--json"))
		return locks[0].Waiting == 71
	}, patience, 50*time.Millisecond, "by a heartbeat")

	locks, _, _ := decode(t, s.ok(t, "ls", "--sort", "waiters", "--json"))
	require.Len(t, locks, 3)
	big := locks[0]
	assert.Equal(t, []any{"account:big", 71, 2, 19, 50},
		[]any{big.Name, big.Waiting, big.Processes, big.Callers, big.Tasks})
	assert.Equal(t, []any{"few", 1, 1}, []any{locks[1].Name, locks[1].Waiting, locks[1].Processes})
	lines := strings.Split(s.ok(t, "ls", "--sort", "waiters"), "\n")
	assert.Regexp(t, `^NAME `, lines[0], "a pipe gets the table alone")
	assert.Regexp(t, `^account:big +web-1 pid \d+ \(charge\) +\S+ +\S+ +71$`, lines[1])
	assert.Contains(t, s.ok(t, "show", "account:big", "--look", "0"), "\nwaiting    71: 2 processes "+
		"in line, 19 callers in the holder's process, 50 tasks in line\n")
}

// Between two owners a lock that tasks wait for is listed, and found by its
// hash.
func TestTasksWaitForALockThatIsFree(t *testing.T) {
	t.Parallel()
	s := start(t)
	k := s.keeper(t, "web-1", patience)
	lease, err := k.Acquire(t.Context(), renewer.Request{Name: "account:big"})
	require.NoError(t, err)
	s.park(t, "account:big", 7)
	require.NoError(t, lease.Release(t.Context()))
	assert.Regexp(t, `(?m)^account:big +- +- +- +7  free$`, s.ok(t, "ls"))
	text := s.ok(t, "show", "--hash", renewer.HashName("account:big", nil))
	assert.Contains(t, text, "state      free, and tasks wait: they come by themselves, within minutes\n"+
		"waiting    7 tasks in line\n")
}
