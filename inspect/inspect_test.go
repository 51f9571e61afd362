package inspect_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hold has an owner take a name, and returns the token.
func hold(t *testing.T, locks renewer.Store, name, owner string) int64 {
	t.Helper()
	return holdOf(t, locks, contract.Name{Text: name}, owner)
}

func holdOf(t *testing.T, locks renewer.Store, name contract.Name, owner string) int64 {
	t.Helper()
	claim := store.Claim{
		Name: name.Text, Owner: owner, TTL: time.Minute, Holder: store.Holder{Node: owner, PID: 7},
	}
	if name.Limit {
		claim.Limit = 2
	}
	g := locks.Engine().Acquire(t.Context(), []store.Claim{claim})[0]
	require.Equal(t, store.StatusHeld, g.Status)
	return g.Fence
}

func renewed(t *testing.T, locks renewer.Store, name contract.Name, owner string) store.Status {
	t.Helper()
	holds := []store.Hold{{
		Name: name.Text, Limit: name.Limit, Owner: owner, TTL: time.Minute,
	}}
	return locks.Engine().Renew(t.Context(), holds)[0].Status
}

func TestListAndShow(t *testing.T) {
	t.Parallel()
	locks := memory.New()
	hold(t, locks, "order:1", "web-1")
	hold(t, locks, "order:2", "web-2")
	hold(t, locks, "user:1", "web-3")
	holdOf(t, locks, contract.Name{Text: "order:1", Limit: true}, "web-4")
	holdOf(t, locks, contract.Name{Text: "order:1", Limit: true}, "web-5")
	got := make(map[string]int)
	for l, err := range inspect.List(t.Context(), locks, inspect.Match("order:*")) {
		require.NoError(t, err)
		if l.Limit {
			l.Name = "limit " + l.Name
		}
		got[l.Name] += len(l.Slots)
	}
	assert.Equal(t, map[string]int{"order:1": 1, "order:2": 1, "limit order:1": 2}, got)

	hold(t, locks, "\x00lockbeat quorum", "web-6") // a store's own
	all := 0
	for _, err := range inspect.List(t.Context(), locks, nil) {
		require.NoError(t, err)
		all++
	}
	assert.Equal(t, 4, all)

	l, err := inspect.Show(t.Context(), locks, "order:1", false)
	require.NoError(t, err)
	assert.Equal(t, "web-1", l.Slots[0].Node)
	l, err = inspect.Show(t.Context(), locks, "order:1", true)
	require.NoError(t, err)
	assert.Equal(t, "order:1", l.Name)
	assert.Len(t, l.Slots, 2)
	l, err = inspect.Show(t.Context(), locks, "free", true)
	require.NoError(t, err)
	assert.Empty(t, l.Slots)
}

func TestBreak(t *testing.T) {
	t.Parallel()
	locks := memory.New()
	order := inspect.Order{Name: "name", By: "alice", Why: "hangs"}
	for _, limit := range []bool{false, true} {
		order.Limit, order.Force = limit, false
		name := contract.Name{Text: "name", Limit: limit}
		order.Fence = holdOf(t, locks, name, "web-1")
		for range 2 {
			require.NoError(t, inspect.Break(t.Context(), locks, order))
			assert.Equal(t, store.StatusBroken, renewed(t, locks, name, "web-1"))
		}
		l, err := inspect.Show(t.Context(), locks, "name", order.Limit)
		require.NoError(t, err)
		assert.Equal(t, &store.Broken{By: "alice", Why: "hangs"}, l.Slots[0].Broken)
		order.Force = true
		require.NoError(t, inspect.Break(t.Context(), locks, order))
		holdOf(t, locks, name, "web-2")
		assert.NotEqual(t, store.StatusBroken, renewed(t, locks, name, "web-1"))
	}
}

// A holder hears of it between two heartbeats, at once. The caller behind it
// has the lock at the instant at which the operation has returned, and by force
// before that.
func TestBreakEndsAnOperation(t *testing.T) {
	t.Parallel()
	for _, force := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			locks := memory.New()
			keeper := func() *renewer.Keeper {
				k, err := renewer.New(locks,
					renewer.Config{TTL: 15 * time.Second, Log: renewer.Silent})
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, k.Shutdown(context.Background())) })
				return k
			}
			lease, err := keeper().Acquire(t.Context(), renewer.Request{Name: "name"})
			require.NoError(t, err)
			<-time.After(7 * time.Second) // one heartbeat has been
			next, waiter := make(chan time.Time, 1), keeper()
			go func() {
				got, err := waiter.Acquire(t.Context(), renewer.Request{Name: "name"})
				assert.NoError(t, err)
				next <- time.Now()
				assert.NoError(t, got.Release(t.Context()))
			}()
			synctest.Wait()
			broken := time.Now()
			require.NoError(t, inspect.Break(t.Context(), locks, inspect.Order{
				Name: "name", Fence: lease.Fence(), By: "alice", Why: "hangs", Force: force,
			}))
			<-lease.Context().Done()
			assert.Zero(t, time.Since(broken))
			var lost *renewer.LostError
			require.ErrorAs(t, context.Cause(lease.Context()), &lost)
			assert.Equal(t, renewer.ReasonBroken, lost.Reason)
			<-time.After(time.Second) // until the operation returns
			require.ErrorIs(t, lease.Release(t.Context()), renewer.ErrLost)
			free := broken.Add(time.Second)
			if force {
				free = broken
			}
			assert.WithinDuration(t, free, <-next, 0)
		})
	}
}

// An order for a lease that is over, or not the current one, breaks none and
// says so.
func TestBreakOfAnotherLease(t *testing.T) {
	t.Parallel()
	locks := memory.New()
	order := inspect.Order{Name: "name", Fence: 7, By: "alice", Why: "hangs"}
	require.ErrorIs(t, inspect.Break(t.Context(), locks, order), inspect.ErrFree)
	hold(t, locks, "name", "web-1")
	err := inspect.Break(t.Context(), locks, order)
	require.ErrorIs(t, err, inspect.ErrStale)
	assert.EqualError(t, err, "inspect: another lease is current: web-1 pid 7 has it: show it again")

	holdOf(t, locks, contract.Name{Text: "name", Limit: true}, "web-1")
	order.Limit = true
	require.ErrorIs(t, inspect.Break(t.Context(), locks, order), inspect.ErrFree, "no such slot")
	for _, limit := range []bool{false, true} {
		name := contract.Name{Text: "name", Limit: limit}
		assert.Equal(t, store.StatusHeld, renewed(t, locks, name, "web-1"))
	}
}

// answering is a store that answers each Break alike.
type answering struct {
	engine.Whole

	answer store.Answer
}

func (s answering) Break(context.Context, store.Breaking) store.Answer { return s.answer }

func TestWhatAStoreAnswersToBreak(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer store.Answer
		is     error
		text   string
	}{
		"foreign": {
			store.Answer{Status: store.StatusTaken, Foreign: true},
			inspect.ErrStale, "another program has written over its key",
		},
		"holder not known": {
			store.Answer{Status: store.StatusTaken}, inspect.ErrStale, "show it again",
		},
		"not known": {
			store.Answer{Err: renewer.ErrUnavailable}, renewer.ErrUnavailable, "unavailable",
		},
	} {
		err := inspect.Break(t.Context(), engine.Of(answering{engine.In(memory.New()), c.answer}),
			inspect.Order{Name: "name", Fence: 7, By: "alice", Why: "hangs"})
		require.ErrorIs(t, err, c.is, name)
		assert.ErrorContains(t, err, c.text, name)
	}
}

// away is a store that can't be asked.
type away struct {
	engine.Whole

	err error
}

func (s away) List(
	context.Context, func(string, bool) bool,
) iter.Seq2[store.Lock, error] {
	return func(yield func(store.Lock, error) bool) { yield(store.Lock{}, s.err) }
}

func (s away) Show(context.Context, string, bool) (store.Lock, error) { return store.Lock{}, s.err }

func (s away) Break(context.Context, store.Breaking) store.Answer { return store.Answer{Err: s.err} }

// A store that can't be asked is told from a caller who has left.
func TestAStoreThatCanNotBeAsked(t *testing.T) {
	t.Parallel()
	locks := engine.Of(away{engine.In(memory.New()), renewer.ErrRejected})
	left, leave := context.WithCancel(t.Context())
	leave()
	for _, ctx := range []context.Context{t.Context(), left} {
		errs := make(map[string]error)
		for _, err := range inspect.List(ctx, locks, nil) {
			errs["list"] = err
		}
		_, errs["show"] = inspect.Show(ctx, locks, "name", false)
		errs["break"] = inspect.Break(ctx, locks,
			inspect.Order{Name: "name", Fence: 7, By: "alice", Why: "hangs"})
		for name, err := range errs {
			require.ErrorIs(t, err, renewer.ErrRejected, name)
			assert.Equal(t, ctx != left, errors.Is(err, renewer.ErrUnavailable), name)
		}
	}
}

func TestBadOrders(t *testing.T) {
	t.Parallel()
	locks := memory.New()
	for text, c := range map[string]struct {
		is    error
		order inspect.Order
	}{
		"Order.Fence: is not positive": {
			renewer.ErrConfig, inspect.Order{Name: "name", Fence: -1, By: "alice", Why: "hangs"},
		},
		"Order.By: is empty": {
			renewer.ErrConfig, inspect.Order{Name: "name", Fence: 7, Why: "hangs"},
		},
		"Order.By: is empty: say who": { // stores drop what can't be printed
			renewer.ErrConfig, inspect.Order{Name: "name", Fence: 7, By: " \x00\u200b", Why: "hangs"},
		},
		"Order.Why: is empty: say why": {
			renewer.ErrConfig, inspect.Order{Name: "name", Fence: 7, By: "alice", Why: "\n \n\xff"},
		},
		"Order.Why: is empty": {
			renewer.ErrConfig, inspect.Order{Name: "name", Fence: 7, By: "alice"},
		},
		"empty": {
			renewer.ErrName, inspect.Order{Fence: 7, By: "alice", Why: "hangs"},
		},
	} {
		err := inspect.Break(t.Context(), locks, c.order)
		require.ErrorIs(t, err, c.is, text)
		assert.ErrorContains(t, err, text)
		assert.NotEqual(t, errors.Is(err, renewer.ErrConfig), errors.Is(err, renewer.ErrName), text)
	}
	err := inspect.Break(t.Context(), locks, inspect.Order{Name: strings.Repeat("x", 513)})
	for _, text := range []string{"Order.Fence: ", "Order.By: ", "Order.Why: ", "512"} {
		assert.ErrorContains(t, err, text, "all faults at once")
	}
	_, err = inspect.Show(t.Context(), locks, "", false)
	assert.ErrorIs(t, err, renewer.ErrName)
}

func TestQuorumIsNotInspected(t *testing.T) {
	t.Parallel()
	locks, err := quorum.New([]renewer.Store{memory.New(), memory.New(), memory.New()})
	require.NoError(t, err)
	errs := make(map[string]error)
	for _, err := range inspect.List(t.Context(), locks, nil) {
		errs["list"] = err
	}
	_, errs["show"] = inspect.Show(t.Context(), locks, "name", false)
	errs["break"] = inspect.Break(t.Context(), locks,
		inspect.Order{Name: "name", Fence: 7, By: "alice", Why: "hangs"})
	require.Len(t, errs, 3)
	for name, err := range errs {
		require.ErrorIs(t, err, renewer.ErrConfig, name)
		assert.ErrorContains(t, err, "inspect the store of each node", name)
	}
}
