package doctor

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// A database of fences (packages fencedb and fencetx) is looked at by its
// catalog, and by EXPLAIN, which needs the rights of a statement and does not
// run it.

// databaseTimeout is how long a database may take to answer.
const databaseTimeout = 10 * time.Second

// look is a question to a database, whose answer is one text, and what that
// means.
type look struct {
	check, query string
	judge        func(answer string, err error) finding
}

// openFences opens the database at a URL, of postgres, mysql or mariadb.
func openFences(address string) (db *sql.DB, looks []look, err error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, errors.New("it is no URL") // which is not shown: it may have a password
	}
	switch u.Scheme {
	case "postgres", "postgresql":
		db, err = sql.Open("pgx", address)
		return db, postgresLooks, err
	case "mysql", "mariadb":
		c := mysql.NewConfig()
		c.User, c.Net, c.Addr = u.User.Username(), "tcp", u.Host
		c.Passwd, _ = u.User.Password()
		if c.DBName = strings.TrimPrefix(u.Path, "/"); c.DBName == "" {
			return nil, nil, errors.New("the URL names no database")
		}
		params := u.Query()
		if socket := params.Get("socket"); socket != "" {
			c.Net, c.Addr = "unix", socket
			params.Del("socket")
		}
		c, err := mysql.ParseDSN(c.FormatDSN() + "?" + params.Encode()) // with the driver's own
		if err != nil {
			return nil, nil, err
		}
		connector, err := mysql.NewConnector(c)
		if err != nil {
			return nil, nil, err
		}
		return sql.OpenDB(connector), mysqlLooks, nil
	default:
		return nil, nil, fmt.Errorf("its scheme is %q, not postgres, mysql or mariadb", u.Scheme)
	}
}

// fences looks at a database of fences.
func (r *report) fences(ctx context.Context, address string) {
	db, looks, err := openFences(address)
	if err == nil {
		defer func() { _ = db.Close() }()
		ctx, end := context.WithTimeout(ctx, databaseTimeout)
		defer end()
		err = db.PingContext(ctx)
	}
	if err != nil {
		r.add(finding{
			Check: "database", Status: failure, Found: err.Error(),
			Change: "give --db a URL such as postgres://user@host/name",
		})
		return
	}
	for _, l := range looks {
		ctx, end := context.WithTimeout(ctx, databaseTimeout)
		f := l.judge(ask(ctx, db, l.query))
		end()
		f.Check = "database: " + l.check
		r.add(f)
		if f.Status == failure {
			return // what follows from it is no news
		}
	}
}

// ask is the last column of the first row; "" if there is none.
func ask(ctx context.Context, db *sql.DB, query string) (string, error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return "", err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err != nil || !rows.Next() {
		return "", cmp.Or(err, rows.Err())
	}
	dest := make([]any, len(columns))
	for i := range dest {
		dest[i] = new(sql.NullString)
	}
	last := new(sql.NullString)
	dest[len(dest)-1] = last
	err = rows.Scan(dest...)
	return last.String, err
}

// is judges an answer that has to be one of those, or begin with it.
func is(found, change string, bad status, good ...string) func(string, error) finding {
	return func(answer string, err error) finding {
		for _, g := range good {
			if err == nil && strings.HasPrefix(answer, g) {
				return finding{Found: found + answer}
			}
		}
		if err != nil {
			answer = err.Error()
		}
		return finding{Status: bad, Found: found + answer, Change: change}
	}
}

// runs judges a statement that has to be possible.
func runs(found, change string) func(string, error) finding {
	return func(_ string, err error) finding {
		if err != nil {
			return finding{Status: failure, Found: err.Error(), Change: change}
		}
		return finding{Found: found}
	}
}

// timeout judges a bound on transactions in which nothing happens.
func timeout(name string) func(string, error) finding {
	return func(answer string, err error) finding {
		switch {
		case err == nil && answer == "":
			return finding{
				Status: warning, Found: "the server has no " + name,
				Change: "watch information_schema.innodb_trx: a holder that is paused in a " +
					"transaction keeps the next one waiting until wait_timeout ends its connection",
			}
		case err == nil && answer != "0":
			return finding{Found: name + " is " + answer}
		}
		return finding{
			Status: warning, Found: name + " is off",
			Change: "set it: a holder that is paused in a transaction keeps the next one waiting",
		}
	}
}

const (
	grantRights = "GRANT SELECT, INSERT, UPDATE ON lockbeat_fences to the program's user"
	anyLevel    = "transactions are at the level "
)

var postgresLooks = []look{
	{"writes", "SHOW transaction_read_only", is("read-only: ", "give the primary", failure, "off")},
	{
		"table", "SELECT coalesce((SELECT relkind::text || relpersistence::text FROM pg_class " +
			"WHERE oid = to_regclass('lockbeat_fences')), 'none')",
		func(answer string, err error) finding {
			switch {
			case err == nil && (answer == "rp" || answer == "pp"): // or one in parts
				return finding{Found: "lockbeat_fences is a table"}
			case err == nil && answer == "ru":
				return finding{
					Status: warning, Found: "lockbeat_fences is unlogged: a crash empties it",
					Change: "ALTER TABLE lockbeat_fences SET LOGGED",
				}
			}
			return finding{
				Status: failure, Found: "there is no table lockbeat_fences",
				Change: "make it, by fencetx.PostgreSQLSchema",
			}
		},
	},
	{
		"rights", "SELECT concat_ws(', ', CASE WHEN NOT has_table_privilege('lockbeat_fences', " +
			"'SELECT') THEN 'SELECT' END, CASE WHEN NOT has_table_privilege('lockbeat_fences', " +
			"'INSERT') THEN 'INSERT' END, CASE WHEN NOT has_table_privilege('lockbeat_fences', " +
			"'UPDATE') THEN 'UPDATE' END)",
		func(answer string, err error) finding {
			if err == nil && answer == "" {
				return finding{Found: "to select, insert and update"}
			}
			return finding{Status: failure, Found: "lacking: " + answer, Change: grantRights}
		},
	},
	{
		"columns", "EXPLAIN INSERT INTO lockbeat_fences (name, claim, token)" +
			" VALUES ('', true, 1::bigint)" +
			" ON CONFLICT (name, claim) DO UPDATE SET token = 1",
		runs("name, claim and token, with their key",
			"make the table anew, by fencetx.PostgreSQLSchema"),
	},
	{
		"rules", "SELECT count(*)::text FROM (SELECT FROM pg_rules " +
			"WHERE tablename = 'lockbeat_fences' UNION ALL SELECT FROM pg_trigger " +
			"WHERE tgrelid = to_regclass('lockbeat_fences')) AS r",
		is("rules and triggers: ", "drop them: the table may take no row", warning, "0"),
	},
	{"level", "SHOW default_transaction_isolation", is(anyLevel, "", ok, "")},
	{
		"pauses", "SHOW idle_in_transaction_session_timeout",
		timeout("idle_in_transaction_session_timeout"),
	},
}

var mysqlLooks = []look{
	{"writes", "SELECT @@read_only", is("read_only: ", "give the primary", failure, "0")},
	{
		"table", "SELECT coalesce(max(engine), 'none') FROM information_schema.tables " +
			"WHERE table_schema = database() AND table_name = 'lockbeat_fences'",
		is("the engine of lockbeat_fences is ", "make it of InnoDB, by fencetx.MySQLSchema",
			failure, "InnoDB"),
	},
	{
		"rights and columns", "EXPLAIN INSERT INTO lockbeat_fences (name, token) VALUES ('', 1) " +
			"ON DUPLICATE KEY UPDATE token = 1",
		runs("name and token, to insert and update", grantRights+", or make the table anew, by "+
			"fencetx.MySQLSchema"),
	},
	{
		"reads", "EXPLAIN SELECT name, token FROM lockbeat_fences WHERE name = '' " +
			"LOCK IN SHARE MODE",
		runs("to select, and share rows", grantRights),
	},
	{
		"level", "SHOW VARIABLES WHERE variable_name IN ('tx_isolation', 'transaction_isolation')",
		is(anyLevel, "", ok, ""),
	},
	{
		"pauses", "SHOW VARIABLES LIKE 'idle_transaction_timeout'", // MariaDB's
		timeout("idle_transaction_timeout"),
	},
}
