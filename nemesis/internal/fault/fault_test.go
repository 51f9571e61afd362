package fault_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/nemesis/internal/fault"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

const (
	ttl     = 3 * time.Second
	request = 250 * time.Millisecond
	soon    = 10 * time.Second
)

// field is a deployment with one worker's links, and a store that goes by them.
type field struct {
	*fault.Field
	store renewer.Store
	crew  *noted
}

// noted is a crew of which one hears what was asked of it.
type noted struct {
	mu   sync.Mutex
	told []string
}

func (c *noted) note(what string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told = append(c.told, what)
	return nil
}

func (c *noted) Kill(int) error  { return c.note("kill") }
func (c *noted) Start(int) error { return c.note("start") }
func (c *noted) Stop(int) error  { return c.note("stop") }
func (c *noted) Cont(int) error  { return c.note("cont") }

func open(t *testing.T, kind string) *field {
	t.Helper()
	d, err := deploy.Open(kind)
	if errors.Is(err, redistest.ErrMissing) && os.Getenv(redistest.RequireEnv) != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	crew := new(noted)
	f := &field{&fault.Field{
		Deployment: d, Crew: crew, Keys: []string{"lockbeat:{lock}"},
		TTL: ttl,
	}, nil, crew}
	f.store = f.join(t).Store
	return f
}

// join adds a worker's links, and makes its store.
func (f *field) join(t *testing.T) *deploy.Connection {
	t.Helper()
	links, err := f.Deployment.Link()
	require.NoError(t, err)
	t.Cleanup(links.Close)
	f.Links = append(f.Links, links)
	spec, err := f.Deployment.Spec(links)
	require.NoError(t, err)
	conn, err := spec.Connect(ttl)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return conn
}

func (f *field) acquire(name string) renewer.Grant {
	ctx, cancel := context.WithTimeout(context.Background(), request)
	defer cancel()
	return f.store.Acquire(ctx,
		[]renewer.Claim{{Name: name, Owner: strings.Repeat("o", renewer.OwnerLen), TTL: ttl}})[0]
}

// hold acquires, be the first answers late.
func (f *field) hold(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return f.acquire(name).Status == renewer.StatusHeld
	}, soon, 10*time.Millisecond)
}

func (f *field) renew(name string) renewer.Status { return f.renewal(name).Status }

func (f *field) renewal(name string) renewer.Answer {
	ctx, cancel := context.WithTimeout(context.Background(), request)
	defer cancel()
	return f.store.Renew(ctx, []renewer.Hold{
		{Name: name, Owner: strings.Repeat("o", renewer.OwnerLen), TTL: ttl},
	})[0]
}

// bites are what the faults of single servers, links and workers do
// to somebody who holds "held" and wants "free".
var bites = map[string]func(t *testing.T, f *field){
	"kill-worker": asks("kill"), "stop-worker": asks("stop"), "kill-most": asks("kill"),
	"kill-server": unavailable, "stop-server": unavailable,
	"blackhole": unavailable, "blackhole-reset": unavailable, "requests-lost": unavailable,
	"requests-late": unavailable,
	"replies-late":  unavailable, "replies-dropped": unavailable, "replies-muted": unavailable,
	"refused": unavailable,
	"delay":   slow, "reset": harmless,
	"out-of-memory": unavailable, "read-only": unavailable, "rights-narrowed": renewalsFail,
	"rights-lost": unavailable,
	"auth-lost":   unavailable, "script-flush": harmless, "writes-paused": unavailable,
	"all-paused": unavailable, "debug-sleep": unavailable, "loading": unavailable,
	"flushall": gone, "eviction": unavailable, "restart-empty": unavailable,
	"clock-ahead": gone, "clock-behind": harmless, "clock-rate": harmless,
	"requests-twice": harmless, "starve": func(*testing.T, *field) {},
}

func asks(what string) func(*testing.T, *field) {
	return func(t *testing.T, f *field) {
		f.crew.mu.Lock()
		defer f.crew.mu.Unlock()
		assert.Equal(t, []string{what}, f.crew.told)
	}
}

func unavailable(t *testing.T, f *field) {
	assert.Eventually(t, func() bool {
		return f.acquire("free").Status == renewer.StatusUnknown
	}, soon, time.Millisecond)
}

func renewalsFail(t *testing.T, f *field) {
	assert.Eventually(t, func() bool {
		return f.renew("held") == renewer.StatusUnknown
	}, soon, time.Millisecond)
}

func gone(t *testing.T, f *field) {
	status := renewer.StatusUnknown
	assert.Eventually(t, func() bool {
		status = f.renew("held")
		return status != renewer.StatusUnknown
	}, soon, time.Millisecond)
	assert.Equal(t, renewer.StatusGone, status)
}

func slow(t *testing.T, f *field) {
	var took time.Duration
	assert.Eventually(t, func() bool {
		begun := time.Now()
		held := f.renew("held") == renewer.StatusHeld
		took = time.Since(begun)
		return held
	}, ttl/2, time.Millisecond)
	assert.GreaterOrEqual(t, took, 100*time.Millisecond)
}

func harmless(t *testing.T, f *field) {
	assert.Eventually(t, func() bool {
		return f.renew("held") == renewer.StatusHeld
	}, ttl/2, time.Millisecond)
}

// Each fault does what it is meant to do, and is over when it is healed.
func TestFaultsBite(t *testing.T) {
	t.Parallel()
	for _, k := range fault.Kinds() {
		if k.Fits != nil {
			continue // they have tests of their own
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			bite := bites[k.Name]
			require.NotNil(t, bite, "say what it does")
			f := open(t, deploy.Standalone)
			// Something to load: slowly, it takes seconds.
			const fill = `for i = 1, 5000 do redis.call('SET', 'lockbeat:{' .. i .. '}', 'x', ` +
				`'PX', 60000) end`
			err := f.Deployment.Servers[0].Do("EVAL", fill, "0").Error()
			require.True(t, rueidis.IsRedisNil(err), "%v", err)
			f.hold(t, "held")
			one := k.New(f.Field, rand.New(rand.NewPCG(1, 2)))
			require.NoError(t, one.Inject(), one.What)
			bite(t, f)
			require.NoError(t, one.Heal(), one.What)
			assert.Eventually(t, func() bool {
				return f.acquire("another").Status == renewer.StatusHeld
			}, soon, 10*time.Millisecond)
		})
	}
}

func TestSlotMoves(t *testing.T) {
	t.Parallel()
	f := open(t, deploy.Cluster)
	slot := redistest.Slot(f.Keys[0])
	before, err := f.Deployment.Cluster.Serving(slot)
	require.NoError(t, err)
	kinds, err := fault.Named(f.Field, []string{"slot-moves"})
	require.NoError(t, err)
	one := kinds[0].New(f.Field, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, one.Inject(), one.What)
	assert.Equal(t, renewer.StatusUnknown, f.acquire("lock").Status, "it is between two servers")
	require.NoError(t, one.Heal(), one.What)
	after, err := f.Deployment.Cluster.Serving(slot)
	require.NoError(t, err)
	assert.NotSame(t, before, after)
	assert.Eventually(t, func() bool {
		return f.acquire("lock").Status == renewer.StatusHeld
	}, soon, 10*time.Millisecond)
}

// Either half has the majority that it sees, and the other half has
// it too as soon as the server between has forgotten.
func TestSplitForget(t *testing.T) {
	t.Parallel()
	f := open(t, deploy.Quorum3)
	other := f.join(t).Store
	kinds, err := fault.Named(f.Field, []string{"split-forget"})
	require.NoError(t, err)
	one := kinds[0].New(f.Field, rand.New(rand.NewPCG(1, 2)))
	require.NoError(t, one.Inject(), one.What)
	assert.Eventually(t, func() bool {
		return f.acquire("lock").Status == renewer.StatusHeld
	}, soon, time.Millisecond)
	assert.Eventually(t, func() bool {
		return other.Acquire(t.Context(),
			[]renewer.Claim{{
				Name: "lock", Owner: strings.Repeat("p", renewer.OwnerLen),
				TTL: ttl,
			}})[0].Status == renewer.StatusHeld
	}, ttl/2, time.Millisecond)
	require.NoError(t, one.Heal(), one.What)
	assert.Eventually(t, func() bool {
		return f.acquire("another").Status == renewer.StatusHeld
	}, soon, 10*time.Millisecond)
}

// The table of the README names them all.
func TestEachIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	for _, k := range fault.Kinds() {
		assert.Contains(t, string(text), "`"+k.Name+"`")
		assert.Equal(t, k.Forgets || k.Hangs, k.Voids != "", "%s must say what it voids", k.Name)
	}
}
