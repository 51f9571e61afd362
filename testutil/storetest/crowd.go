package storetest

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// They keep the machine busy.
var crowdCases = []testCase{
	{"a renewal does not wait for a crowd of acquires", renewInACrowd},
}

// renewInACrowd has a crowd of callers acquire at once. A renewal may wait for
// many of them, not for nearly all, however far they have got. One round in
// which it does not is enough: a busy machine may be late with anything.
func renewInACrowd(t *testing.T, s *suite) {
	const rounds, slack = 20, 10 * time.Millisecond
	a := newOwner()
	s.own(t, "held", a, long)
	held := []store.Hold{{Name: "held", Owner: a, TTL: long}}
	var all, longest time.Duration
	for round := range rounds {
		over, begun := s.ask(t, round), time.Now()
		longest = 0
		for done := false; !done; {
			sent := time.Now()
			answers := s.Store.Renew(t.Context(), held)
			require.Equal(t, []store.Answer{{Status: store.StatusHeld}}, answers)
			longest = max(longest, time.Since(sent))
			select {
			case <-over:
				done = true
			default:
			}
		}
		if all = time.Since(begun); longest <= all*3/4+slack {
			return
		}
	}
	require.Fail(t, "renewals wait behind acquires",
		"the slowest took %v of the %v that all acquires took", longest, all)
}

// ask has a crowd of callers acquire one name each, at once. over is closed
// when all are answered.
func (s *suite) ask(t *testing.T, round int) (over <-chan struct{}) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	var wg sync.WaitGroup
	usual := 2500
	if s.bubble {
		usual = 250
	}
	for i := range cmp.Or(s.Crowd, usual) {
		wg.Go(func() {
			claim := store.Claim{
				Name: fmt.Sprintf("crowd %d, %d", round, i), Owner: newOwner(),
				TTL: long,
			}
			grants := s.Store.Acquire(ctx, []store.Claim{claim})
			if assert.Len(t, grants, 1) {
				assertStatus(t, store.StatusHeld, grants[0].Status, "%v", grants[0].Err)
			}
		})
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		wg.Wait()
		cancel()
	}()
	t.Cleanup(func() { <-done })
	return done
}
