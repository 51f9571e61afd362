package contention_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// runsOf is what the judge of an order knows: the versions whose work began, and ended well.
type runsOf struct {
	mu          sync.Mutex
	begun, done []int
}

func (r *runsOf) note(to *[]int, version int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*to = append(*to, version)
}

var errTryAgain = errors.New("the first try fails")

// Versions of one thing come to two servers in any order, fail, and are tried again while others
// come: none begins after a newer one, and the newest is done last.
func TestTheGreatestRankRunsLast(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"Replace": newestWins, "Latest": newestWaits} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(s *scene) { s.storm(wait) })
		})
	}
}

func (s *scene) storm(wait time.Duration) {
	const versions = 10
	var runs runsOf
	do := func(version int) work {
		var tried atomic.Bool
		return func(ctx context.Context) error {
			runs.note(&runs.begun, version)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(tick):
			}
			if !tried.Swap(true) {
				return errTryAgain
			}
			runs.note(&runs.done, version)
			return nil
		}
	}
	var callers sync.WaitGroup
	for _, i := range rand.Perm(versions) {
		version := do(i + 1)
		servers := []caller{s.openOn(s.keeper, wait, version), s.openOn(s.other, wait, version)}
		callers.Go(func() {
			o := failed
			for try := i; o == failed; try++ {
				o, _ = servers[try%2](s.t.Context(), fmt.Sprintf("%s#%d", key, i+1))
			}
			assert.Contains(s.t, []outcome{done, replaced}, o)
		})
	}
	callers.Wait()
	runs.mu.Lock()
	defer runs.mu.Unlock()
	require.NotEmpty(s.t, runs.done)
	assert.Equal(s.t, versions, runs.done[len(runs.done)-1], "%v of %v", runs.done, runs.begun)
	assert.True(s.t, slices.IsSorted(runs.begun), "one began after a newer: %v", runs.begun)
}
