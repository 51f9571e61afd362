package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/pgtest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// A transfer is a transaction that carries the fence of its lock. A late one
// moves nothing, nor does one without a lock.
func TestTransfersInADatabase(t *testing.T) { //nolint:paralleltest // there is one database
	accounts = openAccounts(t.Context(), pgtest.Start(t).DSN())
	workTime = 0
	defer func() {
		accounts.Close()
		accounts = nil
	}()
	keeper := func() *renewer.Keeper {
		k, err := renewer.New(memory.New(), renewer.Config{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
		return k
	}
	pay := func(ctx context.Context) error { return transfer(ctx, "7", "8") }
	require.ErrorIs(t, pay(t.Context()), lockmw.ErrNotHeld)
	require.NoError(t, lockmw.Run(t.Context(), keeper(), accountLock("7"),
		func(late context.Context) error {
			require.NoError(t, pay(late))
			// Another process has the lock meanwhile, which this one does not
			// know yet.
			require.NoError(t, lockmw.Run(t.Context(), keeper(), accountLock("7"), pay))
			require.ErrorIs(t, pay(late), renewer.ErrLost)
			return nil
		}))
	var balance int64
	require.NoError(t, accounts.QueryRow(t.Context(),
		"SELECT balance FROM accounts WHERE id = '8'").Scan(&balance))
	require.Equal(t, int64(20), balance)
}
