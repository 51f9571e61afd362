package fault_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/nemesis/internal/fault"

	contract "github.com/lockbeat/lockbeat/renewer/store"
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
	store contract.Store
}

func open(t *testing.T) *field {
	t.Helper()
	d, err := deploy.Open(deploy.Standalone)
	if errors.Is(err, redistest.ErrMissing) && os.Getenv(redistest.RequireEnv) != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, d.Close()) })
	links, err := d.Link()
	require.NoError(t, err)
	t.Cleanup(links.Close)
	spec, err := d.Spec(links)
	require.NoError(t, err)
	conn, err := spec.Connect(ttl)
	require.NoError(t, err)
	t.Cleanup(conn.Close)
	return &field{
		&fault.Field{Deployment: d, Links: []deploy.Links{links}, TTL: ttl}, conn.Store.Engine(),
	}
}

func (f *field) acquire(name string) contract.Grant {
	ctx, cancel := context.WithTimeout(context.Background(), request)
	defer cancel()
	return f.store.Acquire(ctx,
		[]contract.Claim{{Name: name, Owner: strings.Repeat("o", contract.OwnerLen), TTL: ttl}})[0]
}

// hold acquires, be the first answers late.
func (f *field) hold(t *testing.T, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return f.acquire(name).Status == contract.StatusHeld
	}, soon, 10*time.Millisecond)
}

func (f *field) renew(name string) contract.Status { return f.renewal(name).Status }

func (f *field) renewal(name string) contract.Answer {
	ctx, cancel := context.WithTimeout(context.Background(), request)
	defer cancel()
	return f.store.Renew(ctx, []contract.Hold{
		{Name: name, Owner: strings.Repeat("o", contract.OwnerLen), TTL: ttl},
	})[0]
}

// bites are what the faults of single servers, links and workers do
// to somebody who holds "held" and wants "free".
var bites = map[string]func(t *testing.T, f *field){
	"kill-server": unavailable, "stop-server": unavailable,
	"blackhole": unavailable, "blackhole-reset": unavailable, "requests-lost": unavailable,
	"requests-late": unavailable,
	"replies-late":  unavailable, "replies-dropped": unavailable, "replies-muted": unavailable,
	"refused": unavailable,
	"delay":   slow, "reset": harmless,
	"out-of-memory": unavailable, "read-only": unavailable, "rights-narrowed": renewalsFail,
	"rights-lost": unavailable,
	"auth-lost":   unavailable, "script-flush": harmless, "writes-paused": unavailable,
	"flushall": gone, "eviction": unavailable, "restart-empty": unavailable,
	"clock-ahead": gone, "clock-behind": harmless, "clock-rate": harmless,
}

func unavailable(t *testing.T, f *field) {
	assert.Eventually(t, func() bool {
		return f.acquire("free").Status == contract.StatusUnknown
	}, soon, time.Millisecond)
}

func renewalsFail(t *testing.T, f *field) {
	assert.Eventually(t, func() bool {
		return f.renew("held") == contract.StatusUnknown
	}, soon, time.Millisecond)
}

func gone(t *testing.T, f *field) {
	status := contract.StatusUnknown
	assert.Eventually(t, func() bool {
		status = f.renew("held")
		return status != contract.StatusUnknown
	}, soon, time.Millisecond)
	assert.Equal(t, contract.StatusGone, status)
}

func slow(t *testing.T, f *field) {
	var took time.Duration
	assert.Eventually(t, func() bool {
		begun := time.Now()
		held := f.renew("held") == contract.StatusHeld
		took = time.Since(begun)
		return held
	}, ttl/2, time.Millisecond)
	assert.GreaterOrEqual(t, took, 100*time.Millisecond)
}

func harmless(t *testing.T, f *field) {
	assert.Eventually(t, func() bool {
		return f.renew("held") == contract.StatusHeld
	}, ttl/2, time.Millisecond)
}

// ofProcesses are faults of workers, of which there are none here.
var ofProcesses = []string{"kill-worker", "stop-worker", "kill-most"}

// Each fault does what it is meant to do, and is over when it is healed.
func TestFaultsBite(t *testing.T) {
	t.Parallel()
	for _, k := range fault.Kinds() {
		if k.Fits != nil || slices.Contains(ofProcesses, k.Name) {
			continue
		}
		t.Run(k.Name, func(t *testing.T) {
			t.Parallel()
			bite := bites[k.Name]
			require.NotNil(t, bite, "say what it does")
			f := open(t)
			f.hold(t, "held")
			one := k.New(f.Field, rand.New(rand.NewPCG(1, 2)))
			require.NoError(t, one.Inject(), one.What)
			bite(t, f)
			require.NoError(t, one.Heal(), one.What)
			assert.Eventually(t, func() bool {
				return f.acquire("another").Status == contract.StatusHeld
			}, soon, 10*time.Millisecond)
		})
	}
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
