package quota_test

import (
	"math"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
)

// elapse lets a time pass, by the clock of the bubble.
func elapse(d time.Duration) { <-time.After(d) }

func TestABudgetIsEachCallers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := quota.NewBudget(1000, 1000*time.Second)
		assert.Zero(t, b.Take("a", 0))
		b.Use("a", 999)
		assert.Zero(t, b.Take("a", 0))
		b.Use("a", 101)
		assert.Equal(t, 100*time.Second, b.Take("a", 0).Round(time.Second))
		assert.Zero(t, b.Take("b", 0))
		elapse(99 * time.Second)
		assert.Equal(t, time.Second, b.Take("a", 0).Round(time.Second))
		elapse(time.Second)
		assert.Equal(t, time.Duration(1), b.Take("a", 0), "it has just what it may have")
		elapse(2 * time.Second)
		assert.Zero(t, b.Take("a", 0))
	})
}

// In no period can a caller use more than twice the amount, and what it used
// last.
func TestABudgetOverTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := quota.NewBudget(1000, 1000*time.Second)
		begun, used := time.Now(), 0
		for time.Since(begun) < 1000*time.Second {
			if wait := b.Take("a", 0); wait > 0 {
				elapse(wait)
				continue
			}
			b.Use("a", 10)
			used += 10
		}
		assert.InDelta(t, 2000, used, 20)
	})
}

func TestCallersOfABudgetAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := quota.NewBudget(1000, 1000*time.Second)
		for i := range 10_000 {
			b.Use(strconv.Itoa(i), 10)
			elapse(time.Second)
		}
		assert.LessOrEqual(t, b.Callers(), 64)
	})
}

// However many there are, what is kept in mind is bounded.
func TestTheCallersOfABudgetAreBounded(t *testing.T) {
	t.Parallel()
	b := quota.NewBudget(1000, time.Hour)
	for i := range quota.MostCallers + 4096 {
		b.Use(strconv.Itoa(i), 1000)
	}
	assert.Equal(t, quota.MostCallers, b.Callers())
}

func TestABudgetWithoutEnd(t *testing.T) {
	t.Parallel()
	b := quota.NewBudget(math.MaxInt64, time.Hour)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				b.Use("a", math.MaxInt32)
				assert.Zero(t, b.Take("a", 0))
			}
		})
	}
	wg.Wait()
	require.Equal(t, 1, b.Callers())
}
