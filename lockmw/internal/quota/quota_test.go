package quota_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
)

func TestEachHasABoundOfItsOwn(t *testing.T) {
	t.Parallel()
	q := quota.New(2)
	assert.True(t, q.Take("a"))
	assert.True(t, q.Take("a"))
	assert.False(t, q.Take("a"))
	assert.True(t, q.Take("b"))
	q.Give("a")
	assert.True(t, q.Take("a"))
}

func TestCallersWithNothingAreForgotten(t *testing.T) {
	t.Parallel()
	q := quota.New(1)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			caller := string(rune('a' + i%7))
			if q.Take(caller) {
				q.Give(caller)
			}
		})
	}
	wg.Wait()
	assert.Zero(t, q.Callers())
}
