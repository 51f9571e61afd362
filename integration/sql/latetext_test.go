package sql_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/fencedb/fencedpgx"
	"github.com/lockbeat/lockbeat/renewer"
)

// writers are texts that write, or end a transaction, or open one that is read-only to
// writes, in ways that their first word does not show.
func writers(d fencedb.Dialect) (texts []string) {
	const del = "DELETE FROM accounts"
	texts = []string{
		insert, del, "SELECT 1; " + insert, "SELECT 'it''s'; " + del,
		"COMMIT; " + del, "ROLLBACK; INSERT INTO entries (id) VALUES ('to ')", "END; " + del,
		"SELECT 1; COMMIT", "COMMIT; BEGIN", "COMMIT", "ROLLBACK", "BEGIN", "/* a */ COMMIT",
		"-- a\nCOMMIT", ";COMMIT", "BEGIN; " + insert + "; COMMIT", insert + "; BEGIN", "END",
		"SAVEPOINT a", "SAVEPOINT a; " + insert + "; RELEASE SAVEPOINT a", "RELEASE SAVEPOINT a",
		"ROLLBACK TO SAVEPOINT a", "\ufeffCOMMIT", "\ufeff" + del,
		"WITH a AS (SELECT '7' AS id)\ufeffDELETE FROM accounts",
		"WITH a AS (SELECT 1) " + del, "/*! DELETE FROM accounts */", "/*! COMMIT */",
		"/* /* */ DELETE FROM accounts -- */", "/* /* */ COMMIT -- */",
	}
	switch d {
	case fencedb.PostgreSQL:
		return append(texts,
			"SET application_name = 'a'; "+del, "DISCARD PLANS; "+del, "LISTEN a; "+del,
			"RESET application_name; "+del, "SELECT writes()", "SELECT writes\f()",
			"SELECT own.now()", "SELECT /**/ own. now ()", "SELECT \"now\"() FROM own.now()",
			"SELECT * INTO other FROM accounts", "SELECT nextval('s')",
			"SELECT id FROM accounts WHERE n IN (SELECT writes())", "SELECT $$;$$; "+del,
			"SELECT 1 AS a$$; DELETE FROM accounts; --$$", "SELECT '\\'; "+del+"; --'",
			"SELECT E'\\'; DELETE', 1; "+del, "/* /* */ SELECT 1 */ "+del,
			"-- a\rDELETE FROM accounts; --\nSELECT 1", "DO $$ BEGIN "+del+"; END $$",
			"DO $$ BEGIN "+del+"; COMMIT; END $$", "CALL commits()", "CALL writes_in()",
			"EXPLAIN ANALYZE "+del, "PREPARE a AS "+del, "EXECUTE a",
			"COPY accounts TO PROGRAM 'true'", "COPY (DELETE FROM accounts RETURNING id) TO "+
				"PROGRAM 'cat >/dev/null'", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "ABORT",
			"PREPARE TRANSACTION 'a'", "TRUNCATE accounts", "LOCK accounts",
			"CREATE FUNCTION f() RETURNS bigint BEGIN ATOMIC DELETE FROM accounts; "+
				"SELECT 1; END; SELECT f()", "REFRESH MATERIALIZED VIEW accounts",
			"SET TRANSACTION READ WRITE", ";SET TRANSACTION READ WRITE",
			"SET LOCAL transaction_read_only = off",
			"SET SESSION transaction_read_only TO off", "SET \"Transaction_Read_Only\" = 0",
			"SET U&\"transaction\\005fread_only\" = off", "RESET transaction_read_only",
			"SET transaction_read_only TO DEFAULT", "BEGIN READ WRITE",
			"SET application_name = 'a'; SET transaction_read_only = off",
			"START TRANSACTION READ WRITE", "SELECT set_config('transaction_read_only','off',true)",
			"UPDATE pg_settings SET setting = 'off' WHERE name = 'transaction_read_only'",
			"SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
	case fencedb.MySQL:
		texts = append(texts,
			"SET @a = 1; "+del, "SET STATEMENT max_statement_time = 9 FOR "+del,
			"SET STATEMENT max_statement_time = 9 FOR COMMIT", "USE mine; "+del, "SHOW TABLES; "+del,
			"SELECT NEXT VALUE FOR s", "SET @a = NEXT VALUE FOR s",
			"SELECT nextval(s)", "SELECT 1 INTO @a", "SELECT '\\'; "+del, "SELECT 1--1; "+del,
			"SELECT '\\'', 1; "+del+"; -- '", "# it's\n"+del, "/*M! DELETE FROM accounts */",
			"/*!99999 SELECT */ COMMIT", "/*!40101 SET @a = 1 */; COMMIT", "COMMIT AND CHAIN",
			"START TRANSACTION", "START TRANSACTION READ WRITE", "SET autocommit = 1",
			"SET @a = 1, @@session.`autocommit` = 1", "SET TRANSACTION READ WRITE", "XA START 'a'",
			"PREPARE a FROM 'DELETE FROM accounts'", "EXECUTE a", "PREPARE a FROM 'COMMIT'",
			"EXECUTE a", "EXECUTE IMMEDIATE 'COMMIT'",
			"BEGIN NOT ATOMIC DELETE FROM accounts; COMMIT; END", "REPLACE entries VALUES ('x')",
			"SET PASSWORD = PASSWORD('')", "SET DEFAULT ROLE NONE")
		for commits := range strings.SplitSeq("CHECK TABLE entries; ANALYZE TABLE entries; "+
			"OPTIMIZE TABLE entries; REPAIR TABLE entries; FLUSH STATUS; RESET QUERY CACHE; "+
			"RESET MASTER; LOCK TABLES entries WRITE; UNLOCK TABLES; CREATE TABLE more (n INT); "+
			"CREATE OR REPLACE TEMPORARY TABLE tmp (n INT); ALTER TABLE tmp ADD m INT; "+
			"TRUNCATE tmp; DROP TEMPORARY TABLE tmp; RENAME TABLE more TO less; DROP TABLE less; "+
			"CREATE UNIQUE INDEX temporary ON entries (id); DROP INDEX temporary ON entries; "+
			"CACHE INDEX entries IN `default`; LOAD INDEX INTO CACHE entries; START SLAVE; "+
			"CHANGE MASTER TO MASTER_CONNECT_RETRY = 60; BACKUP STAGE START; BACKUP STAGE END; "+
			"CREATE VIEW v AS SELECT 1; DROP VIEW v; ALTER TABLE s COMMENT 'a'; "+
			"GRANT SELECT ON * TO CURRENT_USER; CREATE USER a; INSTALL SONAME 'none'; "+
			"SIGNAL SQLSTATE '01000'; DESCRIBE entries; EXPLAIN DELETE FROM entries; "+
			"TABLE entries; VALUES (1); HANDLER entries OPEN", "; ") {
			texts = append(texts, commits)
		}
		return append(texts, "LOAD DATA INFILE '/none' INTO TABLE entries")
	default:
		return append(texts,
			"PRAGMA cache_size = 100; "+del, "PRAGMA user_version = 7", "PRAGMA query_only = 0",
			"PRAGMA writable_schema = 1", "SELECT [;]; "+del, "SELECT `;`; "+del,
			"SELECT '\\'; "+del+"; --'", "SELECT $a(';); DELETE FROM accounts; --')",
			"SELECT @a::b(';); DELETE FROM accounts; --')", "SELECT 1 --\r; --\n; "+del,
			"SELECT 1\x00; "+del, "REPLACE INTO entries VALUES ('x')", "VACUUM", "REINDEX",
			"WITH a AS (SELECT '7') REPLACE INTO entries SELECT * FROM a", "ROLLBACK TRANSACTION",
			"ROLLBACK TRANSACTION TO a", "INSERT OR ROLLBACK INTO accounts VALUES ('7', 0)",
			"CREATE TRIGGER a AFTER INSERT ON entries BEGIN DELETE FROM accounts; END; COMMIT",
			"EXPLAIN "+del, "ATTACH ':memory:' AS a", "DETACH a", "ANALYZE")
	}
}

// openWriters makes a database with what writers call.
func openWriters(t *testing.T, name string) *fenced {
	t.Helper()
	d := ways()[name].openAccount(t, name)
	switch d.dialect() {
	case fencedb.PostgreSQL:
		const writes = " LANGUAGE plpgsql AS $$ BEGIN INSERT INTO entries VALUES ('x'); "
		d.run(t, "CREATE SEQUENCE s",
			"CREATE FUNCTION writes() RETURNS bigint"+writes+"RETURN 1; END $$",
			"CREATE FUNCTION "+d.own(t)+".now() RETURNS bigint"+writes+"RETURN 1; END $$",
			"CREATE PROCEDURE writes_in()"+writes+"END $$",
			"CREATE PROCEDURE commits()"+writes+"COMMIT; END $$")
	case fencedb.MySQL:
		d.run(t, "CREATE SEQUENCE s")
		if strings.Contains(d.dsn, "?") {
			d = d.with("&multiStatements=true")
		} else {
			d = d.with("?multiStatements=true")
		}
	default:
	}
	return d
}

// own is the schema of a database of PostgreSQL.
func (d *fenced) own(t *testing.T) (name string) {
	t.Helper()
	if d.dialect() == fencedb.PostgreSQL {
		require.NoError(t, d.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&name))
	}
	return name
}

// state is what a late holder must not change.
func (d *fenced) state(t *testing.T) (state string) {
	t.Helper()
	asked := "SELECT (SELECT count(*) FROM entries), (SELECT sum(n) FROM accounts), "
	asked += map[fencedb.Dialect]string{
		fencedb.PostgreSQL: "(SELECT concat(last_value, is_called) FROM s) || " +
			"(SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace)",
		fencedb.MySQL: "(SELECT concat(next_not_cached_value, (SELECT count(*) FROM " +
			"information_schema.tables WHERE table_schema = database())) FROM s)",
		fencedb.SQLite: "(SELECT user_version FROM pragma_user_version) || " +
			"(SELECT count(*) FROM sqlite_master)",
	}[d.dialect()]
	var entries, n, more sql.NullString
	require.NoError(t, d.QueryRowContext(t.Context(), asked).Scan(&entries, &n, &more))
	return fmt.Sprint(entries, n, more)
}

// Whatever a text hides, a late holder's changes nothing: by itself, prepared, before a
// statement that writes, or in a transaction that is read-only.
func TestLateTextsChangeNothing(t *testing.T) {
	t.Parallel()
	readOnly := &sql.TxOptions{ReadOnly: true}
	for _, name := range []string{"pgx/stdlib", "lib/pq", "MariaDB", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openWriters(t, name)
			r, _ := ways()[name].repo(t, d, true).(sqlRepository)
			late, now := holder(t, 1, "a"), holder(t, 2, "a")
			require.NoError(t, inTx(nil)(now, r.db))
			before := d.state(t)
			for _, text := range writers(d.dialect()) {
				text = strings.ReplaceAll(text, "own.", d.own(t)+".")
				for way, do := range map[string]func(context.Context, *sql.DB) error{
					"by itself": execs(text), "with rows": queries(text),
					"prepared": prepared(text, false), "first": onConn(text, insert),
					"read-only": inTx(readOnly, text, insert),
					"twice":     onConn(text, text),
				} {
					_ = do(late, r.db)
					if !assert.Equal(t, before, d.state(t), "%s: %q", way, text) {
						before = d.state(t)
					}
				}
			}
		})
	}
}

// A text in a transaction that has a fence is refused, or leaves it in that transaction.
func TestTextsStayInTheTransaction(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx/stdlib", "lib/pq", "MariaDB", "SQLite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openWriters(t, name)
			r, _ := ways()[name].repo(t, d, true).(sqlRepository)
			asked := map[fencedb.Dialect]string{
				fencedb.PostgreSQL: "SELECT now()", fencedb.MySQL: "SELECT @@in_transaction",
				fencedb.SQLite: "SELECT 1",
			}[d.dialect()]
			stays := func(text string) {
				ctx, leave := newProcess(t).under(t, 1, "a")
				defer leave()
				tx, err := r.db.BeginTx(ctx, nil)
				require.NoError(t, err)
				defer func() { _ = tx.Rollback() }()
				var before, after string
				require.NoError(t, tx.QueryRowContext(ctx, asked).Scan(&before))
				_, err = tx.ExecContext(ctx, text)
				if errors.Is(err, renewer.ErrConfig) || err != nil && d.dialect() != fencedb.MySQL {
					return
				}
				require.NoError(t, tx.QueryRowContext(ctx, asked).Scan(&after), text)
				assert.Equal(t, before, after, "%q", text)
				if d.dialect() == fencedb.SQLite {
					_, err := tx.ExecContext(ctx, "VACUUM")
					assert.ErrorContains(t, err, "transaction", "%q", text)
				}
			}
			for _, text := range writers(d.dialect()) {
				stays(strings.ReplaceAll(text, "own.", d.own(t)+"."))
			}
		})
	}
}

// So it is with pgx's own calls, which do not look at those of a Tx.
func TestLateTextsOfPgx(t *testing.T) {
	t.Parallel()
	d := openWriters(t, "sqlc on pgx")
	pool := openPool(t, d)
	late, now := holder(t, 1, "a"), holder(t, 2, "a")
	require.NoError(t, pgx.BeginFunc(now, pool, func(pgx.Tx) error { return nil }))
	before := d.state(t)
	for _, text := range writers(d.dialect()) {
		text = strings.ReplaceAll(text, "own.", d.own(t)+".")
		for way, do := range map[string]func(c *fencedpgx.PoolConn) error{
			"by itself": func(c *fencedpgx.PoolConn) error {
				_, err := c.Exec(late, text)
				return err
			},
			"with rows": func(c *fencedpgx.PoolConn) error {
				var s string
				return c.QueryRow(late, text, pgx.QueryExecModeSimpleProtocol).Scan(&s)
			},
			"a batch": func(c *fencedpgx.PoolConn) error {
				b := &pgx.Batch{}
				b.Queue(text)
				b.Queue(insert)
				return c.SendBatch(late, b).Close()
			},
			"read-only": func(c *fencedpgx.PoolConn) error {
				return pgx.BeginTxFunc(late, c, pgx.TxOptions{AccessMode: pgx.ReadOnly},
					func(tx pgx.Tx) error {
						_, err := c.Exec(late, text)
						_, late := tx.Exec(late, insert)
						return errors.Join(err, late)
					})
			},
		} {
			_ = pool.AcquireFunc(late, do)
			assert.Equal(t, before, d.state(t), "%s: %q", way, text)
		}
	}
	_, err := pool.BeginTx(late, pgx.TxOptions{AccessMode: pgx.ReadOnly, BeginQuery: "BEGIN"})
	require.ErrorIs(t, err, renewer.ErrLost, "it only says that it is read-only")
}

// A transaction that was begun under no lock has no fence, but under one no text ends it and
// goes on.
func TestATextEndsNoBareTransactionAndGoesOn(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx/stdlib", "lib/pq", "SQLite"} {
		d := openWriters(t, name)
		r, _ := ways()[name].repo(t, d, true).(sqlRepository)
		late, now := holder(t, 1, "a"), holder(t, 2, "a")
		require.NoError(t, inTx(nil)(now, r.db))
		before := d.state(t)
		for _, readOnly := range []bool{false, true} {
			tx, err := r.db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: readOnly})
			require.NoError(t, err)
			_, err = tx.ExecContext(late, "COMMIT; "+insert)
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.NoError(t, tx.Rollback())
		}
		c, err := r.db.Conn(t.Context())
		require.NoError(t, err)
		_, err = c.ExecContext(t.Context(), "BEGIN")
		require.NoError(t, err)
		_, err = c.ExecContext(late, "COMMIT; "+insert)
		require.ErrorIs(t, err, renewer.ErrConfig)
		_, err = c.ExecContext(late, "ROLLBACK")
		require.NoError(t, errors.Join(err, c.Close()))
		require.Equal(t, before, d.state(t), name)
	}
}
