package twoservers_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/examples/internal/twoservers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bank carries out all calls in this process, each by way of call.
func bank(d *demo.Demo, call func(func())) *twoservers.Bank {
	l := twoservers.NewLedger()
	transfer := func(_ int, from string, seconds float64) twoservers.Call {
		return twoservers.Call{Send: func(ctx context.Context) (r twoservers.Reply) {
			call(func() {
				o := ledger.Order{From: from, To: "bob", Amount: 1, Seconds: seconds}
				left, err := l.Transfer(ctx, o)
				r = twoservers.Reply{Says: "OK", Balance: left}
				if err != nil {
					r.Says = err.Error()
				}
			})
			return r
		}}
	}
	return &twoservers.Bank{
		Demo: d, Ledger: l, Transfer: transfer, OK: "OK",
		Busy:     "busy",
		Withdraw: func(server int, _ string) twoservers.Call { return transfer(server, "cash", 0) },
	}
}

// Without locks, and with one lock for all, what was claimed does not hold.
func TestClaims(t *testing.T) {
	t.Parallel()
	demotest.Breaks(t, demo.Setting{}, func(ctx context.Context, d *demo.Demo) error {
		return bank(d, func(f func()) { f() }).Tell(ctx)
	}, "waits its turn", "refused at once: can't", "race with the lock: the balance is right: 9", "most transfers at once")

	var one sync.Mutex
	verdict := demotest.Breaks(t, demo.Setting{}, func(ctx context.Context, d *demo.Demo) error {
		b := bank(d, func(f func()) { one.Lock(); defer one.Unlock(); f() })
		b.Unlocked(ctx, b.Transfer)
		return b.Tell(ctx)
	}, "race without the lock: the balance is wrong: 960; 960 would be right")
	assert.NotContains(t, verdict, "race with the lock")
}

// An act that fails ends the story.
func TestFailedAct(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	demotest.Breaks(t, demo.Setting{}, func(ctx context.Context, d *demo.Demo) error {
		tell := bank(d, func(f func()) { f() }).Tell
		return tell(ctx, func(context.Context) error { return failed })
	}, "failed; another one on the other server")
}
