//go:build unix

package faulttest_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/testutil/suite"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(holderEnv); addr != "" {
		os.Exit(holdUntilKilled(addr))
	}
	suite.AtOnce(8)
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

// patience is how long a test waits for what should come soon.
const patience = 10 * time.Second

// dice is a random source that goroutines may share.
type dice struct {
	mu     sync.Mutex
	random *rand.Rand
}

// roll makes a test's dice and logs what they were seeded with.
func roll(t *testing.T) *dice {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("LOCKBEAT_FAULT_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err, "LOCKBEAT_FAULT_SEED")
	}
	t.Logf("LOCKBEAT_FAULT_SEED=%d", seed)
	return &dice{random: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // moments, not secrets
}

// between is a random duration in [least, most).
func (d *dice) between(least, most time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return least + time.Duration(d.random.Int64N(int64(most-least)))
}

// pass lets d go by.
func pass(d time.Duration) { <-time.After(d) }
