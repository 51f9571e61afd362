package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/store"
)

var batchCases = []testCase{
	{"an empty batch is no trouble", emptyBatch},
	{"a batch is answered in order", mixedBatch},
	{"a large batch is answered in order", largeBatch},
	{"a name twice in a batch", twiceInBatch},
	{"a context that has ended", endedContext},
	{"a context that ends meanwhile", endingContext},
	{"an unanswered request settles", settles},
}

func emptyBatch(t *testing.T, s *suite) {
	assert.Empty(t, s.Store.Acquire(t.Context(), nil))
	assert.Empty(t, s.Store.Acquire(t.Context(), []store.Claim{}))
	assert.Empty(t, s.Store.Renew(t.Context(), nil))
	assert.Empty(t, s.Store.Renew(t.Context(), []store.Hold{}))
	assert.Empty(t, s.Store.Release(t.Context(), nil))
	assert.Empty(t, s.Store.Release(t.Context(), []store.Hold{}))
}

func mixedBatch(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	fence := s.own(t, "mine", a, long)
	s.own(t, "theirs", b, long)
	grants := s.acquireAll(t, []store.Claim{
		{Name: "free 1", Owner: a, TTL: long},
		{Name: "theirs", Owner: a, TTL: long},
		{Name: "mine", Owner: a, TTL: long},
		{Name: "free 2", Owner: a, TTL: long},
	})
	var got []store.Status
	for _, g := range grants {
		got = append(got, g.Status)
	}
	assertStatuses(t, []store.Status{
		store.StatusHeld, store.StatusTaken, store.StatusHeld,
		store.StatusHeld,
	}, got)
	assert.Equal(t, fence, grants[2].Fence)

	holds := []store.Hold{
		{Name: "gone", Owner: a, TTL: long},
		{Name: "free 2", Owner: a, TTL: long},
		{Name: "theirs", Owner: a, TTL: long},
		{Name: "mine", Owner: a, TTL: long},
	}
	before := slices.Clone(holds)
	want := []store.Status{
		store.StatusGone, store.StatusHeld, store.StatusTaken,
		store.StatusHeld,
	}
	assertStatuses(t, want, s.holds(t, s.Store.Renew, holds))
	assertStatuses(t, want, s.holds(t, s.Store.Release, holds))
	assert.Equal(t, before, holds, "the items are the caller's")
	want = []store.Status{
		store.StatusGone, store.StatusGone, store.StatusTaken,
		store.StatusGone,
	}
	assertStatuses(t, want, s.holds(t, s.Store.Renew, holds),
		"what was released is gone, the rest as it was")
	assertStatus(t, store.StatusHeld, s.renew(t, "free 1", a, long))
}

// largeBatch has more items than an implementation may want to send
// at once; owner and answer differ by item.
func largeBatch(t *testing.T, s *suite) {
	const many = 1500
	a, b := newOwner(), newOwner()
	name := func(i int) string { return fmt.Sprint("name ", i) }
	var theirs []store.Claim
	for i := 0; i < many; i += 3 {
		theirs = append(theirs,
			store.Claim{Name: name(i), Owner: b, TTL: long, Holder: store.Holder{PID: i + 1}})
	}
	s.acquireAll(t, theirs)

	claims, holds := make([]store.Claim, many), make([]store.Hold, many)
	for i := range many {
		claims[i] = store.Claim{Name: name(i), Owner: a, TTL: long}
		holds[i] = store.Hold{Name: name(i), Owner: a, TTL: long}
	}
	for i, g := range s.acquireAll(t, claims) {
		if i%3 != 0 {
			requireStatus(t, store.StatusHeld, g.Status, "item %d", i)
			continue
		}
		requireStatus(t, store.StatusTaken, g.Status, "item %d", i)
		if !s.Blind {
			require.Equal(t, i+1, g.Holder.PID, "item %d", i)
		}
	}
	for _, do := range []func(context.Context, []store.Hold) []store.Answer{
		s.Store.Renew,
		s.Store.Release,
	} {
		for i, got := range s.holds(t, do, holds) {
			want := store.StatusHeld
			if i%3 == 0 {
				want = store.StatusTaken
			}
			requireStatus(t, want, got, "item %d", i)
		}
	}
}

func twiceInBatch(t *testing.T, s *suite) {
	a, b := newOwner(), newOwner()
	grants := s.acquireAll(t, []store.Claim{
		{Name: "name", Owner: a, TTL: long},
		{Name: "name", Owner: b, TTL: long},
	})
	assert.ElementsMatch(t, []store.Status{store.StatusHeld, store.StatusTaken},
		[]store.Status{grants[0].Status, grants[1].Status})

	grants = s.acquireAll(t, []store.Claim{
		{Name: "other", Owner: a, TTL: long},
		{Name: "other", Owner: a, TTL: long},
	})
	assertStatus(t, store.StatusHeld, grants[0].Status)
	assert.Equal(t, grants[0].Fence, grants[1].Fence)
	hold := store.Hold{Name: "other", Owner: a, TTL: long}
	assertStatuses(t, []store.Status{store.StatusHeld, store.StatusHeld},
		s.holds(t, s.Store.Renew, []store.Hold{hold, hold}))
	got := s.holds(t, s.Store.Release, []store.Hold{hold, hold})
	assert.ElementsMatch(t, []store.Status{store.StatusHeld, store.StatusGone}, got)
}

func endedContext(t *testing.T, s *suite) {
	a := newOwner()
	s.own(t, "held", a, long)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := time.Now()
	for _, g := range s.Store.Acquire(ctx,
		[]store.Claim{{Name: "1", Owner: a, TTL: long}, {Name: "2", Owner: a, TTL: long}}) {
		assertStatus(t, store.StatusUnknown, g.Status)
		assert.ErrorIs(t, g.Err, context.Canceled)
	}
	hold := store.Hold{Name: "held", Owner: a, TTL: long}
	for _, do := range []func(context.Context, []store.Hold) []store.Answer{
		s.Store.Renew,
		s.Store.Release,
	} {
		answers := do(ctx, []store.Hold{hold, hold})
		assert.Len(t, answers, 2)
		for _, answer := range answers {
			assertStatus(t, store.StatusUnknown, answer.Status)
			assert.ErrorIs(t, answer.Err, context.Canceled)
		}
	}
	assert.Less(t, time.Since(before), callBy)
}

// endingContext cancels calls under way, and writes to their arguments and
// answers afterwards: the race detector finds a store that still uses them.
// What is answered then must be true.
func endingContext(t *testing.T, s *suite) {
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 25 {
				s.cancelled(t, fmt.Sprintf("name %d/%d", g, i),
					time.Duration(i*20)*time.Microsecond)
			}
		})
	}
	wg.Wait()
}

func (s *suite) cancelled(t testing.TB, name string, after time.Duration) {
	a := newOwner()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	claims := []store.Claim{{Name: name, Owner: a, TTL: long}}
	grants := s.Store.Acquire(ctx, claims)
	if !assert.Len(t, grants, 1) {
		return
	}
	if grants[0].Status == store.StatusHeld {
		assertStatus(t, store.StatusHeld, s.renew(t, name, a, long), "it was granted")
	} else {
		assertStatus(t, store.StatusUnknown, grants[0].Status)
		assert.Error(t, grants[0].Err)
	}
	claims[0], grants[0] = store.Claim{}, store.Grant{}

	holds := []store.Hold{{Name: name, Owner: a, TTL: long}}
	for _, do := range []func(context.Context, []store.Hold) []store.Answer{
		s.Store.Renew,
		s.Store.Release,
	} {
		answers := do(ctx, holds)
		if assert.Len(t, answers, 1) && answers[0].Status == store.StatusUnknown {
			assert.Error(t, answers[0].Err)
		}
		answers[0] = store.Answer{}
	}
	holds[0] = store.Hold{}
}

func settles(t *testing.T, s *suite) {
	assert.GreaterOrEqual(t, s.Store.Settle(), time.Duration(0))
}
