package campaign_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

const (
	// holderEnv makes the test's program a process that holds limits: its value is a server's
	// address.
	holderEnv = "NEMESIS_HOLDER"
	heldTTL   = 2 * time.Second
	held      = 10 // limits
	ofEach    = 2  // slots
)

func heldName(i int) string { return fmt.Sprint("lock-", i) }

// hold holds all slots of each limit until it is killed.
func hold(addr string) {
	n, err := connect(target(addr, addr), heldTTL)
	for i := 0; err == nil && i < held*ofEach; i++ {
		_, err = n.keeper.Acquire(context.Background(), renewer.Request{
			Name: heldName(i / ofEach), Limit: atMost(ofEach),
		})
	}
	fmt.Println(err)
	select {}
}

// When a process is killed, its slots are in the hands of those who wait when their TTL is over. A
// long run has 200 of them.
func TestSlotsOfAKilledProcessAreInherited(t *testing.T) { //nolint:paralleltest // it measures
	server := start(t)
	heir, end := join(t, server, heldTTL)
	var after []time.Duration
	for range suite.Size(1, 10) {
		after = append(after, inherit(t, server, heir)...)
	}
	end()
	slices.Sort(after)
	t.Logf("%d slots in other hands after their TTL: p50 %v, p90 %v, at most %v", len(after),
		after[len(after)/2], after[len(after)*9/10], after[len(after)-1])
	require.Positive(t, after[0])
	require.Less(t, after[len(after)/2], heldTTL)
}

// inherit kills a process that holds limits, and returns how long after its TTL each slot was had
// by another, who waited for it.
func inherit(t *testing.T, server *redistest.Server, heir *renewer.Keeper) []time.Duration {
	t.Helper()
	kill := holder(t, server)
	var had [held]chan time.Time
	var calls sync.WaitGroup
	all := make(chan struct{})
	for i := range had {
		had[i] = make(chan time.Time, ofEach)
		for range ofEach {
			calls.Go(func() {
				lease, err := heir.Acquire(context.Background(), renewer.Request{
					Name: heldName(i), Limit: atMost(ofEach), MaxWait: patience,
				})
				had[i] <- time.Now()
				<-all // or the next one would have this slot
				if assert.NoError(t, err) {
					assert.NoError(t, lease.Release(context.Background()))
				}
			})
		}
	}
	for i := range had {
		require.Eventually(t, func() bool {
			n, err := server.Do("ZCARD", slotsOf(i)+":waiters").AsInt64()
			return err == nil && n == 1
		}, patience, time.Millisecond)
	}
	kill()
	var ends [held][]rueidis.ZScore
	for i := range ends {
		var err error
		ends[i], err = server.Do("ZRANGE", slotsOf(i), "0", "-1", "WITHSCORES").AsZScores()
		require.NoError(t, err)
		require.Len(t, ends[i], ofEach)
	}
	var after []time.Duration
	for i := range had {
		for _, end := range ends[i] { // by the server's clock, which is the test's
			after = append(after, (<-had[i]).Sub(time.UnixMicro(int64(end.Score))))
		}
	}
	close(all)
	calls.Wait()
	return after
}

func slotsOf(i int) string { return "lockbeat:{" + heldName(i) + "}:slots" }

// holder starts a process that holds limits, and returns what kills it.
func holder(t *testing.T, server *redistest.Server) (kill func()) {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	p := exec.Command(program)
	p.Env = append(os.Environ(), holderEnv+"="+server.Addr())
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	kill = sync.OnceFunc(func() {
		assert.NoError(t, p.Process.Kill())
		_ = p.Wait() // says that it was killed
	})
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "<nil>\n", line)
	return kill
}
