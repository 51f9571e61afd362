package pgtest_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/pgtest"
)

// The driver is the test's: this module has none.
func ExampleStart() {
	_ = func(t *testing.T) {
		server := pgtest.Start(t)
		db, err := sql.Open("pgx", server.DSN())
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		require.NoError(t, db.PingContext(t.Context()))
	}
}
