package mariatest_test

import (
	"database/sql"
	"errors"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/mariatest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServer(t *testing.T) {
	t.Parallel()
	server, err := mariatest.Open()
	if errors.Is(err, mariatest.ErrMissing) && os.Getenv(mariatest.RequireEnv) != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	_, after, _ := strings.Cut(server.DSN("shop"), "(")
	socket, database, _ := strings.Cut(after, ")")
	require.Equal(t, "/shop", database)
	conn, err := net.Dial("unix", socket)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, server.Close())
	require.NoFileExists(t, socket)
	_, err = net.Dial("unix", socket)
	require.Error(t, err)
}

// The driver is the test's: this module has none.
func ExampleOpen() {
	_ = func(t *testing.T) {
		server, err := mariatest.Open()
		require.NoError(t, err)
		defer func() { require.NoError(t, server.Close()) }()
		db, err := sql.Open("mysql", server.DSN(""))
		require.NoError(t, err)
		defer func() { require.NoError(t, db.Close()) }()
		require.NoError(t, db.PingContext(t.Context()))
	}
}
