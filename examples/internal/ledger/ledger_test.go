package ledger_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/lockmw"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open() *ledger.Ledger { return ledger.New(map[string]int{"ada": 100, "bob": 0}) }

func TestTransfer(t *testing.T) {
	t.Parallel()
	l := open()
	left, err := l.Transfer(t.Context(), ledger.Order{From: "ada", To: "bob", Amount: 30})
	require.NoError(t, err)
	assert.Equal(t, 70, left)
	left, inside, most := l.Account("bob")
	assert.Equal(t, []int{30, 0, 0}, []int{left, inside, most})
}

func TestRefusedOrders(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]ledger.Order{
		"from no account": {To: "bob", Amount: 1},
		"to no account":   {From: "ada", Amount: 1},
		"nothing":         {From: "ada", To: "bob"},
		"backwards":       {From: "ada", To: "bob", Amount: -1},
		"to oneself":      {From: "ada", To: "ada", Amount: 1},
		"too much":        {From: "ada", To: "bob", Amount: 101},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open()
			_, err := l.Transfer(t.Context(), o)
			require.ErrorIs(t, err, ledger.ErrOrder)
			left, _, _ := l.Account("ada")
			assert.Equal(t, 100, left)
		})
	}
}

// What the examples' lock is for: of two at once, the later one undoes the earlier one.
func TestOverlapLosesMoney(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := open()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				_, err := l.Transfer(t.Context(),
					ledger.Order{From: "ada", To: "bob", Amount: 1, Seconds: 1})
				assert.NoError(t, err)
			})
		}
		require.NoError(t, l.Await(t.Context(), "ada"))
		both.Wait()
		left, inside, most := l.Account("ada")
		assert.Equal(t, []int{99, 0, 2}, []int{left, inside, most})
		gained, _, _ := l.Account("bob")
		assert.Equal(t, 2, gained)
	})
}

// Whose context ends while it thinks moves nothing, and says why.
func TestCutShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := open()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second-1)
		defer cancel()
		o := ledger.Order{From: "ada", To: "bob", Amount: 1, Seconds: 1}
		_, err := l.Transfer(ctx, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		begun := time.Now()
		_, err = l.Transfer(t.Context(), o)
		require.NoError(t, err)
		assert.Equal(t, time.Second, time.Since(begun))
		left, inside, most := l.Account("ada")
		assert.Equal(t, []int{99, 0, 1}, []int{left, inside, most})
		assert.ErrorIs(t, l.Await(ctx, "ada"), context.DeadlineExceeded, "no transfer is at work")
	})
}

// A write that comes under an older token than the account has seen
// is refused; one without a lock has none.
func TestFormerHolderIsRefused(t *testing.T) {
	t.Parallel()
	l, o := open(), ledger.Order{From: "ada", To: "bob", Amount: 1}
	for fence, refused := range map[int64]error{
		0: ledger.ErrStale, 6: ledger.ErrStale, 7: nil,
		8: nil,
	} {
		_, err := l.Transfer(lockmw.WithFence(t.Context(), 7), o)
		require.NoError(t, err)
		_, err = l.Transfer(lockmw.WithFence(t.Context(), fence), o)
		require.ErrorIs(t, err, refused)
		l = open()
	}
	_, err := l.Transfer(t.Context(), o)
	assert.NoError(t, err, "an account that no program locks")
}
