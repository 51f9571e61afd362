//go:build unix

package doctor_test

import (
	"bytes"
	"database/sql"
	"errors"
	neturl "net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/cli"
	"github.com/lockbeat/lockbeat/internal/testutil/mariatest"
	"github.com/lockbeat/lockbeat/internal/testutil/pgtest"
	"github.com/lockbeat/lockbeat/lockmw/fencetx"
)

// examineDatabase runs the doctor for a database of fences.
func examineDatabase(t *testing.T, address string) (text string, status int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = cli.Main([]string{"doctor", "--db", address}, &stdout, &stderr)
	require.Empty(t, stderr.String())
	return strings.Join(strings.Fields(stdout.String()), " "), status
}

// step is what is done to a database, and what the doctor then says.
type step struct {
	do     string
	says   string
	status int
}

func steps(t *testing.T, db *sql.DB, address string, all []step) {
	t.Helper()
	for _, s := range all {
		if s.do != "" {
			_, err := db.ExecContext(t.Context(), s.do)
			require.NoError(t, err, s.do)
		}
		text, status := examineDatabase(t, address)
		assert.Contains(t, text, s.says, s.do)
		assert.Equal(t, s.status, status, text)
	}
}

func TestDatabaseOfFences(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t)
	db, err := sql.Open("pgx", server.DSN())
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	param := func(name string) string {
		return regexp.MustCompile(name + `=(\S+)`).FindStringSubmatch(server.DSN())[1]
	}
	address := func(user string) string {
		return "postgres:///" + param("dbname") + "?sslmode=disable&user=" + user + "&host=" +
			neturl.QueryEscape(param("host"))
	}
	steps(t, db, address(param("user")), []step{
		{"", "there is no table lockbeat_fences -> make it, by fencetx.PostgreSQLSchema", 2},
		{"CREATE TABLE lockbeat_fences (name BYTEA, claim BOOLEAN, token BIGINT)", "make the table anew", 2},
		{
			"DROP TABLE lockbeat_fences; CREATE TABLE lockbeat_fences (name BYTEA, claim BOOLEAN, " +
				"token BIGINT, PRIMARY KEY (name, claim)) PARTITION BY HASH (name); CREATE TABLE " +
				"part PARTITION OF lockbeat_fences FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
			"lockbeat_fences is a table", 1,
		},
		{"DROP TABLE lockbeat_fences; " + fencetx.PostgreSQLSchema, "keeps the next one waiting", 1},
		{"ALTER SYSTEM SET idle_in_transaction_session_timeout = '10s'", "timeout is off", 1},
		{"SELECT pg_reload_conf(), pg_sleep(0.2)", "OK database: pauses: idle_in_transaction_session_timeout is 10s", 0},
		{"ALTER TABLE lockbeat_fences SET UNLOGGED", "a crash empties it", 1},
		{"ALTER TABLE lockbeat_fences SET LOGGED", "level: transactions are at the level read committed", 0},
		{"CREATE RULE r AS ON INSERT TO lockbeat_fences DO INSTEAD NOTHING", "rules and triggers: 1", 1},
		{"DROP RULE r ON lockbeat_fences; CREATE ROLE u LOGIN", "OK", 0},
	})
	steps(t, db, address("u"), []step{
		{"GRANT SELECT ON lockbeat_fences TO u", "lacking: INSERT, UPDATE -> GRANT SELECT, INSERT, UPDATE", 2},
		{"GRANT INSERT, UPDATE ON lockbeat_fences TO u", "to select, insert and update", 0},
		{"ALTER ROLE u SET default_transaction_read_only = on", "read-only: on", 2},
	})
}

func openMaria(t *testing.T) *mariatest.Server {
	t.Helper()
	server, err := mariatest.Open()
	if errors.Is(err, mariatest.ErrMissing) && os.Getenv(mariatest.RequireEnv) != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return server
}

func TestDatabaseOfFencesInMariaDB(t *testing.T) {
	t.Parallel()
	server := openMaria(t)
	db, err := sql.Open("mysql", server.DSN(""))
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	_, err = db.ExecContext(t.Context(), "CREATE DATABASE shop")
	require.NoError(t, err)
	socket := regexp.MustCompile(`unix\(([^)]+)\)`).FindStringSubmatch(server.DSN(""))[1]
	address := "mariadb://root@/shop?socket=" + neturl.QueryEscape(socket)
	schema := strings.Replace(fencetx.MySQLSchema, "lockbeat_fences", "shop.lockbeat_fences", 1)
	steps(t, db, address, []step{
		{"", "the engine of lockbeat_fences is none -> make it of InnoDB, by fencetx.MySQLSchema", 2},
		{schema, "idle_transaction_timeout is off", 1},
		{"SET GLOBAL idle_transaction_timeout = 10", "level: transactions are at the level REPEATABLE-READ", 0},
		{"ALTER TABLE shop.lockbeat_fences ENGINE=MyISAM", "is MyISAM -> make it of InnoDB", 2},
		{"ALTER TABLE shop.lockbeat_fences ENGINE=InnoDB", "to select, and share rows", 0},
		{"SET GLOBAL read_only = 1", "read_only: 1 -> give the primary", 2},
		{"SET GLOBAL read_only = 0", "to select, and share rows", 0},
		// The server has no rights to take away.
		{"ALTER TABLE shop.lockbeat_fences DROP COLUMN token", "GRANT SELECT, INSERT, UPDATE", 2},
	})
}

// What a URL of MySQL has is the driver's, and what it lacks is told.
func TestURLsOfMariaDB(t *testing.T) {
	t.Parallel()
	maria := openMaria(t)
	socket := regexp.MustCompile(`unix\(([^)]+)\)`).FindStringSubmatch(maria.DSN(""))[1]
	link := filepath.Join(t.TempDir(), ".s.PGSQL.5432")
	require.NoError(t, os.Symlink(socket, link))
	const none = "the engine of lockbeat_fences is none"
	of := func(user, name, more string) string {
		return "mysql://" + user + "@/" + name + "?socket=" + neturl.QueryEscape(socket) + more
	}
	for address, says := range map[string]string{
		of("root", "", ""):        "the URL names no database",
		of("root", "nothing", ""): "Unknown database 'nothing'",
		of("root:p%2F%3F", "information_schema", "&timeout=5s"):        none,
		of("root", "information_schema", "&charset=utf8mb4"):           none,
		of("root", "information_schema", "&tls=true"):                  "TLS",
		of("root", "information_schema", "&tls=mine"):                  "mine",
		of("root", "information_schema", "&sslmode=disable"):           "variable 'sslmode'",
		"postgres:///a?host=" + neturl.QueryEscape(filepath.Dir(link)): "FAIL database: ",
	} {
		text, status := examineDatabase(t, address)
		assert.Contains(t, text, says, address)
		assert.Equal(t, 2, status, address)
		assert.NotContains(t, text, "p/?", address)
	}
}

// What is no database is told, without the password that a URL may have.
func TestNoDatabase(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "sqlite:a", "postgres://u:secret@127.0.0.1:1/a", "mysql://u:secret@127.0.0.1:1/a", "://secret",
	} {
		text, status := examineDatabase(t, address)
		require.Contains(t, text, "FAIL database: ")
		require.Contains(t, text, "give --db a URL")
		require.NotContains(t, text, "secret")
		require.Equal(t, 2, status)
	}
}
