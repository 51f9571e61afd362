package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paper is what was told.
type paper struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *paper) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

// last returns the last event of a kind.
func (p *paper) last(t *testing.T, kind history.Kind) (last history.Event) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range strings.Lines(p.text.String()) {
		var e history.Event
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		if e.Kind == kind {
			last = e
		}
	}
	return last
}

func keep(t *testing.T, flaw worker.Flaw) (*renewer.Keeper, *paper) {
	t.Helper()
	told := new(paper)
	cfg := worker.Config(2 * time.Second)
	store := memory.New()
	k, err := renewer.New(worker.Tell(store, flaw, told, cfg), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, k.Shutdown(context.Background())) })
	return k, told
}

// The deadline that the parent hears of is the one that the lease
// goes by, or later by next to nothing, with each heartbeat.
func TestDeadlinesAreTold(t *testing.T) {
	t.Parallel()
	k, told := keep(t, worker.Sound)
	lease, err := k.Acquire(t.Context(), "lock")
	require.NoError(t, err)
	granted := told.last(t, history.Granted)
	assert.Equal(t, lease.Fence(), granted.Fence)
	assert.Equal(t, "lock", granted.Name)
	first := history.Now() + int64(lease.Remaining())
	assert.LessOrEqual(t, first, granted.Until)
	assert.InDelta(t, first, granted.Until, float64(200*time.Millisecond))

	require.Eventually(t, func() bool {
		return told.last(t, history.Extended).Until > granted.Until
	}, 5*time.Second, time.Millisecond)
	extended := told.last(t, history.Extended)
	assert.Equal(t, granted.Owner, extended.Owner)
	assert.Greater(t, extended.Until, granted.Until)
	require.NoError(t, lease.Release(t.Context()))
}

// Of leases that nobody contends for no history is kept.
func TestIdleLeasesAreNotTold(t *testing.T) {
	t.Parallel()
	k, told := keep(t, worker.Sound)
	lease, err := k.Acquire(t.Context(), worker.IdlePrefix+"1")
	require.NoError(t, err)
	assert.Zero(t, told.last(t, history.Granted))
	require.NoError(t, lease.Release(t.Context()))
}

func TestFlaws(t *testing.T) {
	t.Parallel()
	t.Run(string(worker.StaleToken), func(t *testing.T) {
		t.Parallel()
		k, _ := keep(t, worker.StaleToken)
		for range 2 {
			lease, err := k.Acquire(t.Context(), "lock")
			require.NoError(t, err)
			assert.EqualValues(t, 1, lease.Fence())
			require.NoError(t, lease.Release(t.Context()))
		}
	})
	t.Run(string(worker.DeafRenewal), func(t *testing.T) {
		t.Parallel()
		store := worker.Tell(memory.New(), worker.DeafRenewal, new(paper),
			worker.Config(time.Second))
		answers := store.Renew(t.Context(),
			[]renewer.Hold{{
				Name: "lock", Owner: strings.Repeat("o", renewer.OwnerLen),
				TTL: time.Second,
			}})
		assert.Equal(t, renewer.StatusHeld, answers[0].Status, "nobody has it")
	})
	t.Run(string(worker.ShortRenewal), func(t *testing.T) {
		t.Parallel()
		inner := memory.New()
		store := worker.Tell(inner, worker.ShortRenewal, new(paper), worker.Config(time.Second))
		owner := strings.Repeat("o", renewer.OwnerLen)
		store.Acquire(t.Context(), []renewer.Claim{{Name: "lock", Owner: owner, TTL: time.Hour}})
		store.Renew(t.Context(), []renewer.Hold{{Name: "lock", Owner: owner, TTL: time.Minute}})
		rival := inner.Acquire(t.Context(),
			[]renewer.Claim{{
				Name: "lock", Owner: strings.Repeat("p", renewer.OwnerLen),
				TTL: time.Second,
			}})
		assert.LessOrEqual(t, rival[0].TTL, 15*time.Second)
	})
}
