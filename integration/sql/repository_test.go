package sql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
	"github.com/stretchr/testify/require"
	gormpg "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"modernc.org/sqlite"

	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/fencedb/fencedpgx"
)

// repository is a handler's: nothing in it knows of locks.
type repository interface {
	// Add adds one to the account by a transaction that reads, thinks and writes.
	Add(ctx context.Context, o sql.TxOptions, begun, read func()) error
	AddAlone(ctx context.Context) error     // by one statement
	AddReturning(ctx context.Context) error // by one that has rows
	Sum(ctx context.Context) (int64, error)
}

// way is one in which a program reaches its database: by a repository that carries
// fences, or not.
type way struct {
	open func(*testing.T) *fenced
	repo func(t *testing.T, d *fenced, carries bool, opts ...fencedb.Option) repository
}

func ways() map[string]way {
	return map[string]way{
		"sqlc on pgx":          {fencedPostgres, bySQLC},
		"pgx's own connection": {fencedPostgres, byConn},
		"pgx/stdlib":           {fencedPostgres, bySQL},
		"pgx/stdlib, plain":    {fencedPostgres, byPlainStdlib},
		"lib/pq":               {fencedPostgres, byPQ},
		"lib/pq, serializable": {fencedSerializable, byPQ},
		"GORM":                 {fencedPostgres, byGORM},
		"MariaDB":              {fencedMariaDB, bySQL},
		"SQLite":               {fencedSQLite, bySQL},
	}
}

// fencedSerializable is a database whose transactions are so by default.
func fencedSerializable(t *testing.T) *fenced {
	t.Helper()
	return fencedPostgres(t).with(" default_transaction_isolation=serializable")
}

// openAccount makes the database of a way, with one account.
func (w way) openAccount(t *testing.T, name string) *fenced {
	t.Helper()
	d := w.open(t)
	d.kind = name
	d.run(t, d.schema, "CREATE TABLE accounts (id VARCHAR(20) PRIMARY KEY, n BIGINT NOT NULL)",
		"INSERT INTO accounts (id, n) VALUES ('7', 0)", "CREATE TABLE entries (id VARCHAR(20))")
	return d
}

func (d *fenced) dialect() fencedb.Dialect {
	switch d.kind {
	case "MariaDB":
		return fencedb.MySQL
	case "SQLite":
		return fencedb.SQLite
	default:
		return fencedb.PostgreSQL
	}
}

// connector is the driver's own.
func (d *fenced) connector(t *testing.T) driver.Connector {
	t.Helper()
	switch d.dialect() {
	case fencedb.MySQL:
		c, err := mysql.MySQLDriver{}.OpenConnector(d.dsn)
		require.NoError(t, err)
		return c
	case fencedb.SQLite:
		return plainConnector{&sqlite.Driver{}, d.dsn}
	default:
		config, err := pgx.ParseConfig(d.dsn)
		require.NoError(t, err)
		return stdlib.GetConnector(*config)
	}
}

// plainConnector is that of a driver which has none.
type plainConnector struct {
	driver driver.Driver
	dsn    string
}

func (c plainConnector) Connect(context.Context) (driver.Conn, error) {
	return c.driver.Open(c.dsn)
}

func (c plainConnector) Driver() driver.Driver { return c.driver }

// carrying is a database of database/sql whose connections carry fences.
func (d *fenced) carrying(t *testing.T, opts ...fencedb.Option) *sql.DB {
	t.Helper()
	c := fencedb.Connector(d.connector(t), d.dialect(), opts...)
	if d.dialect() == fencedb.PostgreSQL {
		c = fencedpgx.Connector(d.connector(t), opts...)
	}
	return opened(t, c)
}

func opened(t *testing.T, c driver.Connector) *sql.DB {
	t.Helper()
	db := sql.OpenDB(c)
	t.Cleanup(func() { _ = db.Close() }) // it may tell of a connection that the server has ended
	return db
}

func bySQL(t *testing.T, d *fenced, carries bool, opts ...fencedb.Option) repository {
	t.Helper()
	if !carries {
		return sqlRepository{opened(t, d.connector(t)), d.dialect()}
	}
	return sqlRepository{d.carrying(t, opts...), d.dialect()}
}

func byPlainStdlib(t *testing.T, d *fenced, carries bool, opts ...fencedb.Option) repository {
	t.Helper()
	c := d.connector(t)
	if carries {
		c = fencedb.Connector(c, fencedb.PostgreSQL, opts...)
	}
	return sqlRepository{opened(t, c), fencedb.PostgreSQL}
}

func byPQ(t *testing.T, d *fenced, carries bool, opts ...fencedb.Option) repository {
	t.Helper()
	c, err := pq.NewConnector(d.dsn)
	require.NoError(t, err)
	var wrapped driver.Connector = c
	if carries {
		wrapped = fencedb.Connector(c, fencedb.PostgreSQL, opts...)
	}
	return sqlRepository{opened(t, wrapped), fencedb.PostgreSQL}
}

// sqlRepository is by hand, on database/sql.
type sqlRepository struct {
	db      *sql.DB
	dialect fencedb.Dialect
}

// text has the arguments as the dialect wants them.
func (r sqlRepository) text(query string) string {
	if r.dialect == fencedb.MySQL {
		return strings.NewReplacer("$1", "?", "$2", "?").Replace(query)
	}
	return query
}

func (r sqlRepository) Add(
	ctx context.Context, o sql.TxOptions, begun, read func(),
) (err error) {
	tx, err := r.db.BeginTx(ctx, &o)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	begun()
	var n int64
	err = tx.QueryRowContext(ctx, r.text("SELECT n FROM accounts WHERE id = $1"), "7").Scan(&n)
	if err != nil {
		return err
	}
	read()
	_, err = tx.ExecContext(ctx, r.text("UPDATE accounts SET n = $1 WHERE id = $2"), n+1, "7")
	if err != nil {
		return err
	}
	return tx.Commit()
}

func (r sqlRepository) AddAlone(ctx context.Context) error {
	_, err := r.db.ExecContext(ctx, r.text("UPDATE accounts SET n = n + 1 WHERE id = $1"), "7")
	return err
}

func (r sqlRepository) AddReturning(ctx context.Context) (err error) {
	query := "UPDATE accounts SET n = n + 1 WHERE id = $1 RETURNING id"
	if r.dialect == fencedb.MySQL { // MariaDB has it of INSERT alone
		query = "INSERT INTO entries (id) VALUES (?) RETURNING id"
	}
	rows, err := r.db.QueryContext(ctx, query, "7")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (r sqlRepository) Sum(ctx context.Context) (n int64, err error) {
	err = r.db.QueryRowContext(ctx,
		"SELECT (SELECT sum(n) FROM accounts) + (SELECT count(*) FROM entries)").Scan(&n)
	return n, err
}

// DBTX is what sqlc generates for pgx.
type DBTX interface {
	Exec(context.Context, string, ...any) (pgconn.CommandTag, error)
	Query(context.Context, string, ...any) (pgx.Rows, error)
	QueryRow(context.Context, string, ...any) pgx.Row
}

// Queries is what sqlc generates of three queries.
type Queries struct{ db DBTX }

const getAccount = `-- name: GetAccount :one
SELECT n FROM accounts WHERE id = $1
`

func (q *Queries) GetAccount(ctx context.Context, id string) (int64, error) {
	row := q.db.QueryRow(ctx, getAccount, id)
	var n int64
	err := row.Scan(&n)
	return n, err
}

const setAccount = `-- name: SetAccount :exec
UPDATE accounts SET n = $1 WHERE id = $2
`

type SetAccountParams struct {
	N  int64
	ID string
}

func (q *Queries) SetAccount(ctx context.Context, arg SetAccountParams) error {
	_, err := q.db.Exec(ctx, setAccount, arg.N, arg.ID)
	return err
}

const raiseAccount = `-- name: RaiseAccount :one
UPDATE accounts SET n = n + 1 WHERE id = $1 RETURNING n
`

func (q *Queries) RaiseAccount(ctx context.Context, id string) (int64, error) {
	row := q.db.QueryRow(ctx, raiseAccount, id)
	var n int64
	err := row.Scan(&n)
	return n, err
}

// pgxDB is what the repository takes of pgx' pool.
type pgxDB interface {
	DBTX
	BeginTx(ctx context.Context, o pgx.TxOptions) (pgx.Tx, error)
}

type sqlcRepository struct{ db pgxDB }

func bySQLC(t *testing.T, d *fenced, carries bool, opts ...fencedb.Option) repository {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), d.dsn)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	if !carries {
		return sqlcRepository{pool}
	}
	return sqlcRepository{fencedpgx.New(pool, opts...)}
}

// newConn is a repository on a new connection for each call: it is not for concurrent use.
type newConn struct {
	t    *testing.T
	d    *fenced
	open func(*pgx.Conn) pgxDB
}

func byConn(t *testing.T, d *fenced, carries bool, opts ...fencedb.Option) repository {
	t.Helper()
	return newConn{t, d, func(c *pgx.Conn) pgxDB {
		if carries {
			return fencedpgx.NewConn(c, opts...)
		}
		return c
	}}
}

func (r newConn) with(f func(repository) error) error {
	c, err := pgx.Connect(context.Background(), r.d.dsn)
	if err != nil {
		return err
	}
	return errors.Join(f(sqlcRepository{r.open(c)}), c.Close(context.Background()))
}

func (r newConn) Add(ctx context.Context, o sql.TxOptions, begun, read func()) error {
	return r.with(func(r repository) error { return r.Add(ctx, o, begun, read) })
}

func (r newConn) AddAlone(ctx context.Context) error {
	return r.with(func(r repository) error { return r.AddAlone(ctx) })
}

func (r newConn) AddReturning(ctx context.Context) error {
	return r.with(func(r repository) error { return r.AddReturning(ctx) })
}

func (r newConn) Sum(ctx context.Context) (n int64, err error) {
	err = r.with(func(r repository) (err error) {
		n, err = r.Sum(ctx)
		return err
	})
	return n, err
}

// pgxOptions are o as pgx has them.
func pgxOptions(o sql.TxOptions) (options pgx.TxOptions) {
	if o.Isolation != sql.LevelDefault {
		options.IsoLevel = pgx.TxIsoLevel(strings.ToLower(o.Isolation.String()))
	}
	if o.ReadOnly {
		options.AccessMode = pgx.ReadOnly
	}
	return options
}

func (r sqlcRepository) Add(ctx context.Context, o sql.TxOptions, begun, read func()) error {
	return pgx.BeginTxFunc(ctx, r.db, pgxOptions(o), func(tx pgx.Tx) error {
		begun()
		q := &Queries{tx}
		n, err := q.GetAccount(ctx, "7")
		if err != nil {
			return err
		}
		read()
		return q.SetAccount(ctx, SetAccountParams{N: n + 1, ID: "7"})
	})
}

func (r sqlcRepository) AddAlone(ctx context.Context) error {
	_, err := r.db.Exec(ctx, "UPDATE accounts SET n = n + 1 WHERE id = $1", "7")
	return err
}

func (r sqlcRepository) AddReturning(ctx context.Context) error {
	_, err := (&Queries{r.db}).RaiseAccount(ctx, "7")
	return err
}

func (r sqlcRepository) Sum(ctx context.Context) (int64, error) {
	return (&Queries{r.db}).GetAccount(ctx, "7")
}

// Account is GORM's.
type Account struct {
	ID string `gorm:"primaryKey"`
	N  int64
}

type gormRepository struct{ db *gorm.DB }

func byGORM(t *testing.T, d *fenced, carries bool, opts ...fencedb.Option) repository {
	t.Helper()
	var db *sql.DB
	if carries {
		db = d.carrying(t, opts...)
	} else {
		db = opened(t, d.connector(t))
	}
	g, err := gorm.Open(gormpg.New(gormpg.Config{Conn: db}), &gorm.Config{Logger: logger.Discard})
	require.NoError(t, err)
	return gormRepository{g}
}

func (r gormRepository) Add(
	ctx context.Context, o sql.TxOptions, begun, read func(),
) error {
	return r.db.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		begun()
		var a Account
		if err := tx.First(&a, "id = ?", "7").Error; err != nil {
			return err
		}
		read()
		a.N++
		return tx.Save(&a).Error
	}, &o)
}

func (r gormRepository) AddAlone(ctx context.Context) error {
	return r.db.WithContext(ctx).Exec("UPDATE accounts SET n = n + 1 WHERE id = ?", "7").Error
}

func (r gormRepository) AddReturning(ctx context.Context) error {
	var n int64
	return r.db.WithContext(ctx).
		Raw("UPDATE accounts SET n = n + 1 WHERE id = ? RETURNING n", "7").Scan(&n).Error
}

func (r gormRepository) Sum(ctx context.Context) (n int64, err error) {
	err = r.db.WithContext(ctx).Raw("SELECT n FROM accounts").Scan(&n).Error
	return n, err
}
