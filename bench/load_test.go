package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// newMemoryKeeper needs no server.
func newMemoryKeeper(t *testing.T) *renewer.Keeper {
	t.Helper()
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Shutdown(context.Background())) })
	return k
}

func TestBankSeesWhatNoLockPrevents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBank(2, time.Millisecond)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { assert.NoError(t, b.transfer(t.Context(), "0")) })
		}
		wg.Wait()
		assert.NoError(t, b.transfer(t.Context(), "1"))
		assert.Equal(t, int64(2), b.overlaps.Load())
		assert.Equal(t, int64(4), b.unordered.Load(), "no token is no order")
		assert.Equal(t, int64(2), b.total(),
			"one of three updates is left, and the other account's")
	})
}

func TestBankSeesNothingUnderTheLock(t *testing.T) {
	t.Parallel()
	k := newMemoryKeeper(t)
	b := newBank(2, time.Millisecond)
	var wg sync.WaitGroup
	for n := range 20 {
		id := []string{"0", "1"}[n%2]
		wg.Go(func() {
			_, err := lockmw.Do(t.Context(), k, id, func(ctx context.Context) (int, error) {
				return 0, b.transfer(ctx, id)
			})
			assert.NoError(t, err)
		})
	}
	wg.Wait()
	assert.Zero(t, b.overlaps.Load())
	assert.Zero(t, b.unordered.Load())
	assert.Equal(t, int64(20), b.total())
}

// Two in order, then one with the same token, as after a grant that was given twice.
func TestBankSeesTokensThatDoNotRise(t *testing.T) {
	t.Parallel()
	b := newBank(1, 0)
	for _, fence := range []int64{7, 8, 8} {
		require.NoError(t, b.transfer(lockmw.WithFence(t.Context(), fence), "0"))
	}
	assert.Equal(t, int64(1), b.unordered.Load())
	assert.Zero(t, b.overlaps.Load())
}

func TestTransferThatIsCutShortChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBank(1, time.Hour)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	require.ErrorIs(t, b.transfer(ctx, "0"), gone)
	assert.Zero(t, b.total())
	require.NoError(t, b.transfer(ctx, "of nobody"), "takes no work")
	b.other = func(context.Context, string) error { return gone }
	require.ErrorIs(t, b.transfer(ctx, "of nobody"), gone)
}

// The generator counts what it gets, by each protocol, with and without a lock.
func TestGenerator(t *testing.T) {
	t.Parallel()
	k := newMemoryKeeper(t)
	for _, protocol := range []string{overHTTP, overGRPC} {
		for _, keeper := range []*renewer.Keeper{k, nil} {
			b := newBank(3, 0)
			failing := false
			b.other = func(context.Context, string) error {
				if failing {
					return errors.New("out of order")
				}
				return nil
			}
			s, err := serve(protocol, b, keeper)
			require.NoError(t, err)

			done := generated(t,
				job{Protocol: protocol, Addr: s.addr, Workers: 5, Accounts: 3, Requests: 4},
				job{
					Protocol: protocol, Addr: s.addr, Workers: 2, Accounts: 3,
					For: 20 * time.Millisecond,
				})
			assert.Equal(t, 20, done[0].Requests)
			assert.Equal(t, 20, done[0].OK)
			assert.Empty(t, done[0].Refused)
			assert.Positive(t, done[0].P50)
			assert.GreaterOrEqual(t, done[0].P99, done[0].P50)
			assert.GreaterOrEqual(t, done[0].Took, done[0].P99)
			assert.GreaterOrEqual(t, done[1].Took, 20*time.Millisecond)
			assert.Equal(t, done[1].Requests, done[1].OK)
			if keeper != nil {
				assert.Equal(t, int64(20+done[1].OK), b.total())
				assert.Zero(t, b.unordered.Load()+b.overlaps.Load())
			} else {
				assert.Equal(t, int64(20+done[1].OK), b.unordered.Load(), "nobody has a token")
			}

			own := job{Protocol: protocol, Addr: s.addr, Workers: 1, Requests: 2}
			assert.Equal(t, 2, generated(t, own)[0].OK)
			failing, own.Workers, own.Requests = true, 2, 1
			refused := map[string]string{
				overHTTP: "500 Internal Server Error",
				overGRPC: "Unknown",
			}[protocol]
			assert.Equal(t, map[string]int{refused: 2}, generated(t, own)[0].Refused)
			s.close()
			refused = map[string]string{
				overHTTP: "connection refused",
				overGRPC: "Unavailable",
			}[protocol]
			assert.Equal(t, map[string]int{refused: 2}, generated(t, own)[0].Refused)
		}
	}
}

// generated is what the generator makes of jobs.
func generated(t *testing.T, jobs ...job) []work {
	t.Helper()
	var in, out bytes.Buffer
	for _, j := range jobs {
		require.NoError(t, json.NewEncoder(&in).Encode(j))
	}
	require.NoError(t, generate(t.Context(), &in, &out))
	said := json.NewDecoder(&out)
	done := make([]work, len(jobs))
	for i := range done {
		require.NoError(t, said.Decode(&done[i]))
	}
	require.ErrorIs(t, said.Decode(new(work)), io.EOF)
	return done
}

// Connections are kept while a job lasts, one for each worker, and not longer.
func TestGeneratorLeaves(t *testing.T) {
	t.Parallel()
	var opened, closed atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		w.WriteHeader(http.StatusNoContent)
	}))
	server.Config.ConnState = func(_ net.Conn, now http.ConnState) {
		switch now {
		case http.StateNew:
			opened.Add(1)
		case http.StateClosed:
			closed.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	generated(t, job{
		Protocol: overHTTP, Addr: server.Listener.Addr().String(), Workers: 4,
		Requests: 50,
	})
	assert.LessOrEqual(t, opened.Load(), int64(100),
		"half of the requests: some are opened while another becomes free")
	assert.Eventually(t, func() bool {
		return closed.Load() == opened.Load()
	}, 10*time.Second, time.Millisecond)
}

func TestGeneratorRefusesNonsense(t *testing.T) {
	t.Parallel()
	for _, input := range []string{"x", `{"Protocol":"gopher"}`} {
		require.Error(t, generate(t.Context(), strings.NewReader(input), io.Discard), input)
	}
}

// Each request of a generator has an account that none before has had.
func TestOwnAccounts(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := make(map[string]int)
	b := &bank{other: func(_ context.Context, id string) error {
		mu.Lock()
		defer mu.Unlock()
		seen[id]++
		return nil
	}}
	s, err := serve(overHTTP, b, nil)
	require.NoError(t, err)
	defer s.close()
	j := job{Protocol: overHTTP, Addr: s.addr, Workers: 3, Requests: 5}
	generated(t, j, j)
	assert.Len(t, seen, 30)
}

func TestChildThatFailsIsEnded(t *testing.T) {
	t.Parallel()
	c, err := startChild(t.Context(), childSpec{Who: generator})
	require.NoError(t, err)
	_, err = c.ask(job{Protocol: "gopher"})
	require.ErrorIs(t, err, io.EOF)
	require.ErrorContains(t, err, generator)
	require.ErrorIs(t, c.end(err), io.EOF)

	c, err = startChild(t.Context(), childSpec{Who: generator})
	require.NoError(t, err)
	require.NoError(t, c.end(nil), "ends with its input")
	_, err = c.ask(job{})
	require.Error(t, err)

	c, err = startChild(t.Context(), childSpec{Who: generator})
	require.NoError(t, err)
	err = c.end(io.ErrNoProgress)
	require.ErrorIs(t, err, io.ErrNoProgress)
	require.ErrorContains(t, err, "killed", "it may hang")
}

func TestLeaseKeysAreThoseOfHeldLocks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	k, client, err := connectKeeper(server.Addr(), renewer.DefaultTTL)
	require.NoError(t, err)
	defer client.Close()
	for _, name := range []string{"a", "/accounts/7", "with{braces}"} {
		_, err := k.Acquire(t.Context(), name)
		require.NoError(t, err)
	}
	keys, err := leaseKeys(server)
	require.NoError(t, err)
	assert.Equal(t, 3, keys)
	// they are not released
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, k.Shutdown(ctx))
	keys, err = settle(func() (int, error) { return leaseKeys(server) }, 0)
	require.NoError(t, err)
	assert.Zero(t, keys, "the fencing tokens' counters do not count")
}

func TestCrowd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	k, client, err := connectKeeper(server.Addr(), renewer.DefaultTTL)
	require.NoError(t, err)
	defer client.Close()
	child, err := startChild(t.Context(), childSpec{Who: generator})
	require.NoError(t, err)
	l := &loading{
		redis: server, keeper: k, client: client, generator: child, crowd: 20, keys: 2,
		span: 200 * time.Millisecond,
	}
	left, err := k.Acquire(t.Context(), "left behind")
	require.NoError(t, err)
	for _, protocol := range []string{overHTTP, overGRPC} {
		c, err := l.crowdOn(protocol, k)
		require.NoError(t, err)
		assert.Equal(t, protocol, c.who)
		assert.True(t, c.locked)
		assert.GreaterOrEqual(t, c.Took, l.span)
		assert.GreaterOrEqual(t, c.Requests, l.crowd)
		assert.Zero(t, c.failed())
		assert.Zero(t, c.violations())
		assert.Equal(t, 1, c.keys)

		c, err = l.crowdOn(protocol, nil)
		require.NoError(t, err)
		assert.Equal(t, protocol+", no lock", c.who)
		assert.Equal(t, l.span/5, c.span)
		assert.False(t, c.locked)
		assert.Zero(t, c.failed())
		assert.Positive(t, c.overlaps)
		assert.Positive(t, c.missing)
		assert.Equal(t, int64(c.OK), c.unordered)
	}
	require.NoError(t, left.Release(t.Context()))
	require.NoError(t, child.end(nil))
	require.NoError(t, k.Shutdown(t.Context()))
}

func TestSettle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left := 5
		down := func() (int, error) { left--; return left, nil }
		n, err := settle(down, 2)
		require.NoError(t, err)
		assert.Equal(t, 2, n)
		begun := time.Now()
		n, err = settle(func() (int, error) { return 3, nil }, 2)
		require.NoError(t, err)
		assert.Equal(t, 3, n)
		assert.Equal(t, 5*time.Second, time.Since(begun))
		_, err = settle(func() (int, error) { return 3, io.EOF }, 2)
		assert.ErrorIs(t, err, io.EOF)
	})
}

// Each way to fail makes one target miss.
func TestLoadTargets(t *testing.T) {
	t.Parallel()
	good := func() []*crowd {
		return []*crowd{
			{who: "locked", locked: true, work: work{Requests: 9, OK: 9}, before: 7, after: 6},
			{who: "open", work: work{Requests: 9, OK: 9}, overlaps: 1},
		}
	}
	missed := func(all []*crowd) (missed []string) {
		for _, g := range crowdTargets(all) {
			if !g.ok {
				missed = append(missed, g.what)
			}
		}
		return missed
	}
	assert.Empty(t, missed(good()))
	for _, bad := range []struct {
		what  string
		spoil func(locked, open *crowd)
	}{
		{"locked, violations of exclusion", func(c, _ *crowd) { c.overlaps = 1 }},
		{"locked, violations of exclusion", func(c, _ *crowd) { c.unordered = 1 }},
		{"locked, violations of exclusion", func(c, _ *crowd) { c.missing = 1 }},
		{"locked, violations of exclusion", func(c, _ *crowd) { c.missing = -1 }},
		{"locked, violations of exclusion", func(c, _ *crowd) { c.overlaps, c.missing = 1, -1 }},
		{"locked, refused or failed", func(c, _ *crowd) { c.OK-- }},
		{"locked, goroutines left", func(c, _ *crowd) { c.after = 8 }},
		{"locked, lease keys left", func(c, _ *crowd) { c.keys = 1 }},
		{"open, violations of exclusion", func(_, c *crowd) { c.overlaps = 0 }},
	} {
		all := good()
		bad.spoil(all[0], all[1])
		assert.Equal(t, []string{bad.what}, missed(all))
	}
}

func TestPriceIsTakenRoundByRound(t *testing.T) {
	t.Parallel()
	p := &price{protocol: overHTTP}
	p.p50[withLock] = []float64{180, 290, 410}
	p.p50[withCalls] = []float64{176, 284, 402}
	p.p50[withFloor] = []float64{170, 280, 390}
	p.p50[withPings] = []float64{150, 240, 350}
	p.p50[without] = []float64{50, 150, 260}
	p.p50[pingAlone] = []float64{40, 50, 20}
	assert.Equal(t, []float64{50, 40, 110}, p.more(withLock, without, 2))
	row := strings.Split(strings.TrimSpace(priceTable([]*price{p}).String()), "\n")[2]
	var cells []string
	for cell := range strings.SplitSeq(strings.Trim(row, "|"), "|") {
		cells = append(cells, strings.TrimSpace(cell))
	}
	assert.Equal(t, []string{
		"HTTP", "290", "284", "280", "240", "150", "40", "50", "30, 60", "6", "10", "50",
	}, cells)
	assert.Equal(t, []target{
		{"HTTP, p50 above two round trips", "50 µs (our scripts by hand: 40)", "≤ 50 µs", true},
		{"HTTP, p50 above our scripts by hand", "10 µs", "≤ 15 µs", true},
	}, priceTargets([]*price{p}))
	p.p50[withLock][1]++
	assert.False(t, priceTargets([]*price{p})[0].ok)
	p.p50[withFloor] = []float64{160, 270, 390}
	assert.False(t, priceTargets([]*price{p})[1].ok)
}

func TestExactQuantile(t *testing.T) {
	t.Parallel()
	assert.Zero(t, quantile(nil, .5))
	assert.Equal(t, 2*time.Second, quantile([]time.Duration{time.Second, 2 * time.Second}, .5))
	assert.Equal(t, time.Second, quantile([]time.Duration{time.Second}, .99))
}

func TestAnswersAreCountedByKind(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "0", countsOf(nil))
	assert.Equal(t, "5 (2 × 409 Conflict, 3 × 503)",
		countsOf(map[string]int{"503": 3, "409 Conflict": 2}))
	_, err := http.Get("nonsense:/") //nolint:bodyclose // there is no answer
	assert.Equal(t, `unsupported protocol scheme "nonsense"`, unanswered(err))
	assert.Equal(t, "EOF", unanswered(io.EOF))
}
