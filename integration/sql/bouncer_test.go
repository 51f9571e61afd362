package sql_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/child"
	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/fencedb/fencedpgx"
	"github.com/lockbeat/lockbeat/renewer"
)

// bounced is the DSN of pgbouncer in transaction mode, by two connections to d.
func bounced(t *testing.T, d *fenced) string {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program, err = exec.LookPath("/usr/sbin/pgbouncer") // which some PATHs lack
	}
	if err != nil && os.Getenv("LOCKBEAT_REQUIRE_PGBOUNCER") != "1" {
		t.Skip(err)
	}
	require.NoError(t, err)
	user, err := child.Unprivileged("postgres", "nobody")
	require.NoError(t, err)
	dir, err := os.MkdirTemp("", "lockbeat-bouncer-") //nolint:usetesting // of another user
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	param := func(name string) string {
		return regexp.MustCompile(name + `=(\S+)`).FindStringSubmatch(d.dsn)[1]
	}
	config := filepath.Join(dir, "config")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `[databases]
a = host=%s dbname=postgres user=lockbeat connect_query='SET search_path TO %s'
[pgbouncer]
listen_addr =
unix_socket_dir = %s
auth_type = any
pool_mode = transaction
default_pool_size = 2
`, param("host"), param("search_path"), dir), 0o600))
	require.NoError(t, user.Own(dir))
	require.NoError(t, user.Own(config))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, config)
	user.Run(cmd)
	proc, err := child.Start(cmd, filepath.Join(dir, "log"))
	require.NoError(t, err)
	t.Cleanup(proc.Kill)
	require.NoError(t, proc.AwaitLog("process up", 10*time.Second))
	return "host=" + dir + " port=6432 dbname=a user=lockbeat sslmode=disable"
}

// Behind pgbouncer in transaction mode each transaction may have another connection, and
// nothing of a fence is left on one.
func TestFencesBehindPgbouncer(t *testing.T) {
	t.Parallel()
	d := ways()["sqlc on pgx"].openAccount(t, "sqlc on pgx")
	dsn := bounced(t, d)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		config, err := pgxpool.ParseConfig(dsn)
		require.NoError(t, err)
		config.ConnConfig.DefaultQueryExecMode = mode
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		plain := stdlib.GetConnector(*config.ConnConfig)
		for name, r := range map[string]repository{
			"pgx":    sqlcRepository{fencedpgx.New(pool)},
			"stdlib": sqlRepository{opened(t, fencedpgx.Connector(plain)), fencedb.PostgreSQL},
			"plain": sqlRepository{
				opened(t, fencedb.Connector(plain, fencedb.PostgreSQL)), fencedb.PostgreSQL,
			},
		} {
			writes := []func(context.Context) error{r.AddAlone, r.AddReturning, inTxOf(r)}
			former, successor := holder(t, 1, name+mode.String()), holder(t, 2, name+mode.String())
			for _, under := range []context.Context{former, successor} {
				var all sync.WaitGroup
				for i := range 12 {
					all.Go(func() {
						if err := writes[i%3](under); !inConflict(err) {
							assert.NoError(t, err, "%s, %v", name, mode)
						}
					})
				}
				all.Wait()
			}
			for _, write := range writes {
				require.ErrorIs(t, write(former), renewer.ErrLost, "%s, %v", name, mode)
			}
		}
	}
}

func inTxOf(r repository) func(context.Context) error {
	return func(ctx context.Context) error { return r.Add(ctx, sql.TxOptions{}, noop, noop) }
}
