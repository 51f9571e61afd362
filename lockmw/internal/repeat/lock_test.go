package repeat_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/names"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// ledger is a database that counts its transactions.
type ledger struct {
	records.Records

	begun  int
	commit func() // is called before each commit
}

func (l *ledger) Transact(
	ctx context.Context, fn func(context.Context) (store.Record, error),
) error {
	l.begun++
	record, err := fn(ctx)
	if err != nil {
		return err
	}
	l.commit()
	return l.Write(context.WithoutCancel(ctx), record)
}

// payments are requests whose handler pays from a customer's account, in a
// transaction and under the customer's lock.
type payments struct {
	*repeat.Guard
	*ledger

	t     *testing.T
	store *script.Store
	rule  option.Settings
}

func newPayments(t *testing.T, rule option.Settings) (p *payments, hold func() (release func())) {
	t.Helper()
	k, s := scripted(t)
	l := &ledger{Records: records.Of(k), commit: func() { assert.NotEmpty(t, s.Owner("customer")) }}
	set := repeat.Defaults(100)
	set.Recorder = l
	g, err := repeat.New(k, set)
	require.NoError(t, err)
	return &payments{g, l, t, s, rule}, func() func() {
		lease, err := k.Acquire(t.Context(), renewer.Request{Name: "customer"})
		require.NoError(t, err)
		return func() { require.NoError(t, lease.Release(t.Context())) }
	}
}

func (p *payments) pay(ctx context.Context, amount string) (repeat.Outcome, error) {
	return p.Do(ctx, p.Request("ann", "k", amount), repeat.Work{
		Under: p.Under(names.Set(lockmw.All("customer")), p.rule),
		Run: func(ctx context.Context) repeat.Answer {
			assert.True(p.t, lockmw.Held(ctx, "customer"))
			return final("paid")
		},
		Read: func([]byte) error { return nil },
	})
}

// Requests waited for a lock further in with their transactions open, so that
// its holder got no connection of the same pool. And the lock was free before
// they were committed.
func TestTheLockIsHadBeforeTheTransactionBeginsAndKeptUntilItHasEnded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, hold := newPayments(t, option.Settings{})
		release, done := hold(), make(chan error, 1)
		go func() {
			_, err := p.pay(t.Context(), "7")
			done <- err
		}()
		<-time.After(3 * time.Second)
		assert.Zero(t, p.begun, "a transaction is open while its request waits")
		_, err := p.pay(t.Context(), "7")
		require.ErrorIs(t, err, renewer.ErrBusy)
		require.NotErrorIs(t, err, repeat.ErrLock, "in flight")
		release()
		require.NoError(t, <-done)
		assert.Equal(t, 1, p.begun)
		assert.Empty(t, p.store.Owner("customer"))
		defer hold()()
		begun := time.Now()
		outcome, err := p.pay(t.Context(), "7")
		require.NoError(t, err)
		assert.Equal(t, repeat.OutcomeStored, outcome)
		assert.Zero(t, time.Since(begun), "a stored answer needs no lock")
	})
}

// A request that did not get the lock is as new when it is sent again, even if
// it is another one then.
func TestARefusedLockLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule  option.Settings
		down  bool          // the store, in place of the lock being held
		until time.Duration // the request's deadline, 0: none
		leave bool          // its client leaves then
		kind  error
		took  time.Duration
	}{
		"held":          {kind: renewer.ErrBusy, took: lockmw.DefaultWait},
		"by its rule":   {rule: option.Settings{Contention: option.Refuses}, kind: renewer.ErrBusy},
		"a deadline":    {until: 4 * time.Second, kind: renewer.ErrBusy, took: 3 * time.Second},
		"store down":    {down: true, kind: renewer.ErrUnavailable, took: lockmw.DefaultWait},
		"client leaves": {until: time.Second, leave: true, kind: context.Canceled, took: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p, hold := newPayments(t, c.rule)
				mend := func() { p.store.Default(script.Acquire, script.Pass()) }
				if c.down {
					p.store.Script(script.Acquire, script.Pass())
					p.store.Default(script.Acquire, script.Fail(errors.New("connection refused")))
				} else {
					mend = hold()
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				switch {
				case c.leave:
					time.AfterFunc(c.until, cancel)
				case c.until > 0:
					ctx, cancel = context.WithTimeout(ctx, c.until)
					defer cancel()
				}
				begun := time.Now()
				outcome, err := p.pay(ctx, "7")
				assert.Equal(t, repeat.OutcomeRefused, outcome)
				require.ErrorIs(t, err, c.kind)
				assert.Equal(t, !c.leave, errors.Is(err, repeat.ErrLock))
				assert.InDelta(t, c.took, time.Since(begun), float64(time.Second))
				assert.Zero(t, p.begun)
				mend()
				outcome, err = p.pay(t.Context(), "8")
				require.NoError(t, err)
				assert.Equal(t, repeat.OutcomeOwn, outcome)
			})
		})
	}
}
