//go:build unix

package faulttest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestShutdownFreesEveryLease(t *testing.T) {
	t.Parallel()
	const leases = 2000
	server := redistest.Start(t)
	held := make([]*renewer.Lease, leases)
	var late, err error
	feel(t, 200*time.Millisecond, server).fairly(func(int) bool {
		mustDo(t, server, "FLUSHALL") // of a void trial's
		n := join(t, server, renewer.Config{TTL: renewer.DefaultTTL, Margin: 50 * time.Millisecond})
		n.holdAll(t, held)
		keys, sizeErr := server.DBSize()
		require.NoError(t, sizeErr)
		require.EqualValues(t, leases+1, keys, "the leases, and the mark of tokens")

		// The last second of it is for the operations' notice, which is Margin, and for the keys.
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		n.cutShort = true
		err = n.keeper.Shutdown(ctx)
		late = ctx.Err()
		return late == nil
	})
	require.NoError(t, late, "it was done in time")
	require.ErrorContains(t, err, fmt.Sprint(leases), "it says how many operations still ran")

	const count = `local others, eternal = 0, 0
for _, key in ipairs(redis.call('KEYS', '*')) do
	others = others + (string.find(key, '}:mark', 1, true) and 0 or 1)
	eternal = eternal + (redis.call('PTTL', key) > 0 and 0 or 1)
end
return {others, eternal}`
	counts, err := server.Do("EVAL", count, "0").AsIntSlice()
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 0}, counts, "keys besides those of the server, keys without a TTL")
	for _, lease := range held {
		lost := ended(t, lease)
		require.Equal(t, renewer.ReasonShutdown, lost.Reason)
		require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrLost)
	}
}

// holdAll acquires as many leases as there is room for, from several goroutines.
func (n *node) holdAll(t *testing.T, held []*renewer.Lease) {
	t.Helper()
	errs := make([]error, len(held))
	var workers sync.WaitGroup
	for w := range 32 {
		workers.Go(func() {
			for i := w; i < len(held); i += 32 {
				held[i], errs[i] = n.keeper.Acquire(context.Background(), fmt.Sprint("many", i))
			}
		})
	}
	workers.Wait()
	require.NoError(t, errors.Join(errs...))
}

// A link that is down when the keeper is shut down, and comes back in time, leaves no key behind.
func TestShutdownOutlastsACutLink(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := join(t, server, renewer.Config{TTL: renewer.DefaultTTL})
	lease := n.acquire(t, "cut")
	n.link.Refuse(true)
	n.link.Reset()
	require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrUnavailable)
	time.AfterFunc(300*time.Millisecond, func() { n.link.Refuse(false) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, n.keeper.Shutdown(ctx))
	there, err := server.Do("EXISTS", key("cut")).AsInt64()
	require.NoError(t, err)
	require.Zero(t, there)
}

// The test binary, started again with holderEnv set to a server's
// address, takes a lock and holds it until it is killed.
const (
	holderEnv = "LOCKBEAT_FAULT_HOLDER"
	holderTTL = time.Second
)

// holdUntilKilled is the other process. It ends, without a word to
// the server, when its standard input does.
func holdUntilKilled(addr string) int {
	err := func() error {
		option, err := redisstore.ClientOption(rueidis.ClientOption{
			InitAddress: []string{addr}, ForceSingleClient: true,
		}, holderTTL)
		if err != nil {
			return err
		}
		client, err := rueidis.NewClient(option)
		for begun := time.Now(); err != nil && time.Since(begun) < patience; { // see connect
			client, err = rueidis.NewClient(option)
		}
		if err != nil {
			return err
		}
		store, err := redisstore.New(client)
		if err != nil {
			return err
		}
		keeper, err := renewer.New(store, renewer.Config{TTL: holderTTL, Node: "doomed"})
		if err != nil {
			return err
		}
		lease, err := keeper.Acquire(context.Background(), "bequest", renewer.MaxWait(patience))
		if err != nil {
			return err
		}
		looking := make(chan struct{})
		go tellOfPauses(lease, looking)
		<-looking
		fmt.Println("held", lease.Fence())
		_, err = io.Copy(io.Discard, os.Stdin)
		return err
	}()
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	return 0
}

// tellOfPauses looks at the lease all the time, and says what it saw
// first after a pause of the process, and what it heard then.
func tellOfPauses(lease *renewer.Lease, looking chan<- struct{}) {
	last := time.Now()
	close(looking)
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		now := time.Now() // before the look, so that a look after a long gap is one after the pause
		valid := lease.Valid()
		if now.Sub(last) > holderTTL/2 {
			<-lease.Context().Done()
			soon, lost := time.Since(now) < time.Second, errors.Is(context.Cause(lease.Context()),
				renewer.ErrLost)
			fmt.Printf("woke: valid %v, told soon %v, lost %v\n", valid, soon, lost)
		}
		last = now
	}
}

// A process that was stopped while its lease ran out sees so at its
// first look at the lease, and hears it soon after.
func TestProcessPaused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	heir := join(t, server, renewer.Config{TTL: 10 * holderTTL, Node: "heir"})
	for range 5 {
		paused, said := startHolder(t, server.Addr())
		require.NoError(t, paused.Process.Signal(syscall.SIGSTOP))
		require.True(t, standing(t, paused, syscall.WUNTRACED).Stopped())
		got := <-heir.seek(t.Context(), "bequest", renewer.MaxWait(patience))
		require.False(t, standing(t, paused, syscall.WCONTINUED|syscall.WNOHANG).Continued(),
			"somebody else has sent it a SIGCONT")
		require.NoError(t, got.err)
		lease := got.lease
		require.NoError(t, paused.Process.Signal(syscall.SIGCONT))
		silent := time.AfterFunc(patience, func() { _ = paused.Process.Kill() })
		line, err := said.ReadString('\n')
		silent.Stop()
		require.NoError(t, err)
		require.Equal(t, "woke: valid false, told soon true, lost true\n", line)
		require.True(t, lease.Valid(), "the heir's is not disturbed")
		require.NoError(t, paused.Process.Kill())
		require.NoError(t, lease.Release(t.Context()))
	}
}

// standing is what has become of a process since one last asked.
func standing(t *testing.T, cmd *exec.Cmd, options int) (s syscall.WaitStatus) {
	t.Helper()
	_, err := syscall.Wait4(cmd.Process.Pid, &s, options, nil)
	require.NoError(t, err)
	return s
}

//nolint:paralleltest // it measures 50 ms, and wants the cores for itself
func TestProcessKilled(t *testing.T) {
	server := redistest.Start(t)
	heir := join(t, server, renewer.Config{TTL: 10 * holderTTL, Node: "heir"})
	heir.warm(t)
	pulse := feel(t, afterExpiry/5, server)
	for range 3 {
		var late time.Duration
		pulse.fairly(func(int) bool {
			late = bequeath(t, server, heir)
			t.Logf("taken %v after the TTL had ended", late)
			return -time.Millisecond <= late && late < afterExpiry
		})
		assert.GreaterOrEqual(t, late, -time.Millisecond, "not before the TTL has ended")
		require.Less(t, late, afterExpiry)
	}
}

// bequeath kills a process that holds a lock, and returns how long
// after the TTL had ended the heir got it.
func bequeath(t *testing.T, server *redistest.Server, heir *node) time.Duration {
	t.Helper()
	doomed, _ := startHolder(t, server.Addr())
	waiting := heir.seek(t.Context(), "bequest", renewer.MaxWait(patience))
	pass(holderTTL / 2) // it has been renewed by then
	require.NoError(t, doomed.Process.Kill())
	_ = doomed.Wait() // says that it was killed
	// The server reads what it had been sent before the answer, or with what it answers.
	mustDo(t, server, "PING")
	killed := time.Now()
	left := mustLook(t, server, "bequest")
	got := <-waiting
	require.NoError(t, got.err)
	require.NoError(t, got.lease.Release(t.Context()))
	if !strings.Contains(left.value, "doomed") {
		return patience // it had lapsed: a killed process can't clean up
	}
	require.False(t, left.expires.After(killed.Add(holderTTL)), "free within the TTL")
	return got.at.Sub(left.expires)
}

// startHolder starts the other process and returns when it holds the
// lock, with what it says after that.
func startHolder(t *testing.T, addr string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), holderEnv+"="+addr)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Process.Kill() // fails if it has been killed already
		_ = cmd.Wait()
	})
	said := bufio.NewReader(stdout)
	line, err := said.ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(line, "held "), line)
	return cmd, said
}
