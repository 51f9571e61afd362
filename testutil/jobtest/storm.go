package jobtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// storm is a case of many jobs of a few keys, enqueued in order one right after
// the other, on two servers, whose workers overtake each other on their way to
// the lock. Of each key the last one runs last, to its end, by what the adapter
// gives as [jobs.Delivery].Rank.
func storm(newest jobs.Option) func(*testing.T, *bench) {
	const keys, size = 4, 12
	return func(t *testing.T, b *bench) {
		var mu sync.Mutex
		begun, done := make(map[string][]string), make(map[string][]string)
		note := func(in map[string][]string, j Job) {
			mu.Lock()
			defer mu.Unlock()
			in[j.Key] = append(in[j.Key], j.Name)
		}
		b.serve(8, func(ctx context.Context, j Job) error {
			note(begun, j)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(tick):
				note(done, j)
				return nil
			}
		}, newest)
		var producers sync.WaitGroup
		for k := range keys {
			key := fmt.Sprint("key ", k)
			producers.Go(func() {
				for n := range size {
					b.Enqueue(Job{Key: key, Name: fmt.Sprintf("%s: %02d", key, n)})
				}
			})
		}
		producers.Wait()
		b.awaitDone(1)
		mu.Lock()
		defer mu.Unlock()
		for k := range keys {
			key := fmt.Sprint("key ", k)
			last := fmt.Sprintf("%s: %02d", key, size-1)
			all, ended := begun[key], done[key]
			if assert.NotEmpty(t, ended, "%q", all) {
				assert.Equal(t, last, ended[len(ended)-1], "%q of %q", ended, all)
			}
			assert.True(t, slices.IsSorted(all), "an older one ran after a newer: %q", all)
		}
	}
}
