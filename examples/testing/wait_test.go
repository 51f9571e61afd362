package shop

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func newKeeper(t *testing.T, locks renewer.Store) *renewer.Keeper {
	t.Helper()
	k, err := renewer.New(locks, renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Shutdown(context.Background()) })
	return k
}

func paid(context.Context, string) error { return nil }

func TestItWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locks, began := memory.New(), time.Now()
		order := renewer.Request{Name: orderLock("42")}
		lease, err := newKeeper(t, locks).Acquire(t.Context(), order)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Second, func() { _ = lease.Release(t.Context()) })
		_, err = charge(t.Context(), newKeeper(t, locks), "42", paid)
		if waited := time.Since(began); err != nil || waited != 5*time.Second {
			t.Error(err, waited)
		}
	})
}
