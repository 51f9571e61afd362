//go:build unix

package once_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

const (
	workerEnv = "LOCKBEAT_ONCE_WORKER" // the server's address
	seedEnv   = "LOCKBEAT_ONCE_SEED"
	workers   = 8
	most      = 10
	keep      = 8 * time.Second
	lockTTL   = 2 * time.Second
	patience  = 30 * time.Second
)

// fate is what becomes of an attempt.
type fate uint8

const (
	succeeds fate = iota
	fails
	dies
)

// fateOf rolls the dice for an attempt of any process: 15 %
// succeed, every third of the others kills its process.
func fateOf(seed uint64, attempt int) fate {
	dice := rand.New(rand.NewPCG(seed, uint64(attempt))) //nolint:gosec // luck, not secrets
	switch {
	case dice.Float64() < 0.15:
		return succeeds
	case dice.IntN(3) == 0:
		return dies
	default:
		return fails
	}
}

// onServer makes a keeper on a server.
func onServer(addr string, ttl time.Duration) (*renewer.Keeper, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{addr},
		ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.New(client)
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	k, err := renewer.New(store, renewer.Config{TTL: ttl})
	return k, func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = k.Shutdown(ctx)
		store.Close()
		client.Close()
	}, err
}

func work(
	ctx context.Context, k *renewer.Keeper, seed uint64, begin func(attempt int),
) (string, error) {
	return once.Do(ctx, k, "schedule", func(ctx context.Context) (string, error) {
		n := once.Current(ctx).Number
		begin(n)
		elapse(20 * time.Millisecond)
		switch fateOf(seed, n) {
		case succeeds:
			return fmt.Sprintf("attempt %d by process %d", n, os.Getpid()), nil
		case dies:
			return "", syscall.Kill(os.Getpid(), syscall.SIGKILL)
		default:
			return "", errOperation
		}
	}, once.MaxAttempts(most), once.Keep(keep), once.RetryIn(50*time.Millisecond),
		once.RetryUpTo(50*time.Millisecond))
}

// workAsProcess is the program of a worker: it says which attempts it
// begins, and what the work came to.
func workAsProcess(addr string) int {
	seed, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64)
	if err != nil {
		return 2
	}
	k, closeAll, err := onServer(addr, lockTTL)
	if err != nil {
		fmt.Println(err)
		return 2
	}
	defer closeAll()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	result, err := work(ctx, k, seed, func(n int) { fmt.Printf("begin %d\n", n) })
	switch {
	case err == nil:
		fmt.Printf("result %s\n", result)
	case errors.Is(err, once.ErrAttemptsExhausted):
		fmt.Println("result exhausted")
	default:
		fmt.Printf("result %v\n", err)
	}
	return 0
}

// ended is what was heard of a worker.
type ended struct {
	begun  []string
	result string // "" if it died
}

func runWorkers(t *testing.T, addr string, seed uint64) []ended {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	all := make([]ended, workers)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), workerEnv+"="+addr,
				seedEnv+"="+strconv.FormatUint(seed, 10))
			out, err := cmd.Output()
			for l := range bytes.Lines(out) {
				what, rest, _ := strings.Cut(strings.TrimSpace(string(l)), " ")
				switch what {
				case "begin":
					all[i].begun = append(all[i].begun, rest)
				case "result":
					all[i].result = rest
				default:
					assert.Fail(t, "a worker says", "%s", l)
				}
			}
			if exit, ok := errors.AsType[*exec.ExitError](err); ok {
				assert.Equal(t, "signal: killed", exit.Error(), "%s%s", out, exit.Stderr)
				assert.Empty(t, all[i].result)
			} else {
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	return all
}

// Eight processes, of which many are killed, do work of which most
// attempts fail. In the first run an attempt succeeds after some have
// failed and some have killed their process, in the second none does.
func TestEightProcesses(t *testing.T) {
	t.Parallel()
	for name, seed := range map[string]uint64{"success": 10, "exhausted": 20} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			want, deaths, decided := "exhausted", 0, most
			for n := most; n > 0; n-- {
				if fateOf(seed, n) == succeeds {
					decided = n
				}
			}
			for n := 1; n <= decided; n++ {
				if fateOf(seed, n) == dies {
					deaths++
				}
			}
			require.GreaterOrEqual(t, deaths, 2, "the seed is worth it")
			require.Less(t, deaths, workers-1)
			require.Equal(t, name == "success", fateOf(seed, decided) == succeeds)

			all := runWorkers(t, server.Addr(), seed)
			begun := make(map[string]int)
			results := make(map[string]int)
			survivors := 0
			for _, e := range all {
				for _, n := range e.begun {
					begun[n]++
				}
				if e.result != "" {
					survivors++
					results[e.result]++
				}
			}
			require.Len(t, begun, decided, "every attempt was made: %v", begun)
			for n, times := range begun {
				require.Equal(t, 1, times, "attempt %s, once", n)
			}
			require.Len(t, results, 1, "everybody hears the same: %v", results)
			require.Equal(t, workers-deaths, survivors)
			for result := range results {
				if name == "success" {
					want = fmt.Sprintf("attempt %d by process ", decided)
				}
				require.True(t, strings.HasPrefix(result, want), result)
			}
			requireTTLs(t, server)
			nextRun(t, server)
		})
	}
}

// requireTTLs fails if a key would stay for ever.
func requireTTLs(t *testing.T, server *redistest.Server) {
	t.Helper()
	const eternal = `
		local n = 0
		for _, key in ipairs(redis.call('KEYS', '*')) do
			n = n + (redis.call('PTTL', key) == -1 and 1 or 0)
		end
		return n`
	n, err := server.Do("EVAL", eternal, "0").AsInt64()
	require.NoError(t, err)
	require.Zero(t, n, "keys without a TTL")
	require.Eventually(t, func() bool {
		size, err := server.DBSize()
		return err == nil && size <= 2
	}, patience, 20*time.Millisecond,
		"a fence counter, and the record while it lives; what a lost answer has left lapses")
}

// nextRun waits until what is on record is over, and does the work again under the same name.
func nextRun(t *testing.T, server *redistest.Server) {
	t.Helper()
	k, closeAll, err := onServer(server.Addr(), lockTTL)
	require.NoError(t, err)
	defer closeAll()
	require.Eventually(t, func() bool {
		seen, err := records.Of(k).Read(t.Context(), "schedule")
		return err == nil && seen.Data == ""
	}, patience, 20*time.Millisecond)
	got, err := once.Do(t.Context(), k, "schedule", func(ctx context.Context) (int, error) {
		return once.Current(ctx).Number, nil
	}, once.Keep(keep))
	require.NoError(t, err)
	require.Equal(t, 1, got, "the old marker blocks nobody")
	requireTTLs(t, server)
}
