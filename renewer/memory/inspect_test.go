package memory_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// breakLease breaks the lease of a name that has just been granted.
func breakLease(t *testing.T, s *memory.Engine, name string, force bool) {
	t.Helper()
	breakOf(t, s, contract.Name{Text: name}, force)
}

func breakOf(t *testing.T, s *memory.Engine, name contract.Name, force bool) {
	t.Helper()
	l, err := s.Show(t.Context(), name.Text, name.Limit)
	require.NoError(t, err)
	require.Len(t, l.Slots, 1)
	answer := s.Break(t.Context(), store.Breaking{
		Name: name.Text, Limit: name.Limit, Fence: l.Slots[0].Fence,
		Broken: store.Broken{By: "alice", Why: "test", Force: force},
	})
	require.Equal(t, store.StatusHeld, answer.Status)
}

func TestForceIsToldUntilTheLeaseWouldHaveLapsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(memory.Engine)
		s.Acquire(t.Context(), claim("n", "a", time.Second))
		breakLease(t, s, "n", true)
		s.Acquire(t.Context(), claim("n", "b", time.Minute))
		renewed := func() store.Answer {
			hold := store.Hold{Name: "n", Owner: "a", TTL: time.Second}
			return s.Renew(t.Context(), []store.Hold{hold})[0]
		}
		<-time.After(time.Second - 1)
		assert.Equal(t, &store.Broken{By: "alice", Why: "test", Force: true}, renewed().Broken)
		<-time.After(1)
		assert.Equal(t, store.Answer{Status: store.StatusTaken, Holder: &store.Holder{}}, renewed())
	})
}

// A claim that is sent again gets no second lease in the place of the broken
// one.
func TestBrokenLeaseIsNotClaimedAgain(t *testing.T) {
	t.Parallel()
	s := new(memory.Engine)
	for _, limit := range []int{0, 3} {
		claims := claim("n", "a", time.Minute)
		claims[0].Limit = limit
		fence := s.Acquire(t.Context(), claims)[0].Fence
		breakOf(t, s, contract.Claimed(&claims[0]), false)
		assert.Equal(t, store.StatusTaken, s.Acquire(t.Context(), claims)[0].Status)
		higher := []contract.Proposal{{Claim: claim("n", "a", time.Minute)[0], Fence: fence + 1}}
		assert.Equal(t, store.StatusTaken, s.Propose(t.Context(), higher)[0].Status)
	}
}

func TestBrokenLeasesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(memory.Engine)
		for i := range 100 {
			for j := range 100 {
				name := fmt.Sprint(i, "/", j)
				s.Acquire(t.Context(), claim(name, "a", time.Second))
				breakLease(t, s, name, j%2 == 0)
			}
			<-time.After(time.Second)
			require.LessOrEqual(t, memory.Broken(s), 201, "at most twice the 100 that live")
		}
		s = new(memory.Engine)
		for i := range 100 {
			name := fmt.Sprint(i)
			stop := s.OnBreak(store.Holder{Node: name}, func(string, bool) {})
			s.Acquire(t.Context(), claim(name, "a", time.Second))
			breakLease(t, s, name, false)
			s.Release(t.Context(), []store.Hold{{Name: name, Owner: "a"}})
			stop()
			stop()
		}
		assert.Zero(t, memory.Kept(s)+memory.Broken(s)+memory.Processes(s))
	})
}

func TestOneProcessHearsOfABreak(t *testing.T) {
	t.Parallel()
	s := new(memory.Engine)
	claims := claim("n", "a", time.Minute)
	claims[0].Holder = store.Holder{Node: "web-1", PID: 7, Operation: "charge"}
	s.Acquire(t.Context(), claims)
	var heard []string
	for _, other := range []store.Holder{{Node: "web-1", PID: 8}, {Node: "web-2", PID: 7}, {}} {
		defer s.OnBreak(other, func(string, bool) { heard = append(heard, other.String()) })()
	}
	defer s.OnBreak(store.Holder{Node: "web-1", PID: 7}, func(name string, _ bool) {
		hold := store.Hold{Name: name, Owner: "a", TTL: time.Minute} // it may ask the store
		heard = append(heard, s.Renew(context.Background(), []store.Hold{hold})[0].Status.String())
	})()
	heard = nil // that they are set up
	breakLease(t, s, "n", false)
	assert.Equal(t, []string{"broken"}, heard)
}

// A list of many names holds up no other call of the store, and lets its
// callers ask the store.
func TestListIsReadInSteps(t *testing.T) {
	t.Parallel()
	s := new(memory.Engine)
	const many = 1000
	for i := range many {
		s.Acquire(t.Context(), claim(fmt.Sprint(i), "a", time.Minute))
	}
	asked, listed := 0, 0
	for l, err := range s.List(t.Context(), func(name string, _ bool) bool {
		asked++
		_, err := s.Show(t.Context(), name, false)
		return err == nil
	}) {
		require.NoError(t, err)
		listed++
		if listed == 1 {
			assert.Less(t, asked, many, "the others are not asked for yet")
		}
		s.Release(t.Context(), []store.Hold{{Name: l.Name, Owner: "a"}})
	}
	assert.Equal(t, many, listed)
}
