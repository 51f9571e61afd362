package fencedb

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
)

// byName is a connector for a driver that has none.
type byName struct {
	driver driver.Driver
	dsn    string
}

func (c byName) Connect(context.Context) (driver.Conn, error) { return c.driver.Open(c.dsn) }
func (c byName) Driver() driver.Driver                        { return c.driver }

type connector struct {
	inner driver.Connector
	guard *fence.Guard
	err   error // a mistake in the arguments
}

func (c *connector) Driver() driver.Driver {
	if c.inner == nil {
		return nil
	}
	return c.inner.Driver()
}

// Close is called by [sql.DB.Close].
func (c *connector) Close() error {
	if closer, ok := c.inner.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if c.err != nil {
		return nil, c.err
	}
	inner, err := c.inner.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: inner, guard: c.guard}, nil
}

// conn is a driver's connection. It has all optional interfaces of one, and so
// have stmt and rows: what the driver's lacks is answered as database/sql does
// without. That is a few lines for each interface; a type for each combination
// of them would be hundreds.
type conn struct {
	driver.Conn

	guard  *fence.Guard
	inTx   bool         // in a transaction of BeginTx
	reads  bool         // which is read-only
	fence  *fence.Fence // of the locks that it was begun under
	doubt  bool         // it may be over: a statement has failed, or may have committed it
	gone   bool         // it is
	byText bool         // a statement may have begun one: to be asked
	bad    bool         // a transaction may be open that nobody ends
	skips  int          // how often in a row the driver had arguments prepared
}

// Unwrap is the driver's own connection, given what [sql.Conn.Raw] gives. What
// is written by that has no fence.
func Unwrap(c any) any {
	if own, ok := c.(*conn); ok {
		return own.Conn
	}
	return c
}

func (c *conn) Ping(ctx context.Context) error {
	if p, ok := c.Conn.(driver.Pinger); ok {
		return p.Ping(ctx)
	}
	return nil
}

func (c *conn) ResetSession(ctx context.Context) error {
	if r, ok := c.Conn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c *conn) IsValid() bool {
	v, ok := c.Conn.(driver.Validator)
	return !c.bad && !c.inTx && (!ok || v.IsValid()) // a panic may leave a transaction open
}

func (c *conn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	inner, err := c.prepare(ctx, query)
	if err != nil {
		c.note(true)
		return nil, err
	}
	s := &stmt{Stmt: inner, c: c, query: query}
	if converter, ok := inner.(driver.ColumnConverter); ok { //nolint:staticcheck // what it has
		return &columnStmt{s, converter}, nil
	}
	return s, nil
}

func (c *conn) prepare(ctx context.Context, query string) (driver.Stmt, error) {
	if p, ok := c.Conn.(driver.ConnPrepareContext); ok {
		return p.PrepareContext(ctx, query)
	}
	s, err := c.Prepare(query)
	if err == nil && ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), s.Close())
	}
	return s, err
}

// BeginTx begins a transaction that carries the fence of ctx.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	f, carried, err := c.guard.OfTx(ctx, o.ReadOnly)
	if err != nil {
		return nil, err
	}
	if f != nil || c.fence != nil { // else all is as on the driver itself
		if err := c.alone(ctx); err != nil {
			return nil, err
		}
	}
	if o.ReadOnly {
		if err := c.first(ctx); err != nil {
			return nil, err
		}
	}
	inner, err := c.begin(ctx, o, carried)
	if err != nil {
		return nil, err
	}
	c.inTx, c.reads, c.fence = true, o.ReadOnly, f
	return &tx{inner, c, c.guard.Open(ctx)}, nil
}

// first raises the fence before what the lease reads first.
func (c *conn) first(ctx context.Context) error {
	return broken(ctx, c.guard.First(ctx, func(f *fence.Fence) error {
		if open, err := c.openByText(ctx); open || err != nil {
			return err
		}
		return c.guard.Raise(ctx, f, func() error { return c.raise(ctx, f) })
	}))
}

// alone is an error if a transaction is open: to raise would commit it.
func (c *conn) alone(ctx context.Context) error {
	open, err := c.openByText(ctx)
	if open || c.inTx {
		return fence.ErrOpen
	}
	return err
}

// openByText reports whether a transaction is open that a statement has begun.
func (c *conn) openByText(ctx context.Context) (open bool, err error) {
	if c.byText && !c.inTx {
		open, err = c.isOpen(ctx)
		c.byText = open || err != nil
	}
	return open, err
}

func (c *conn) isOpen(ctx context.Context) (bool, error) {
	return c.guard.Dialect.IsOpen(func(text string) error { return c.do(ctx, text) })
}

func (c *conn) begin(
	ctx context.Context, o driver.TxOptions, f *fence.Fence,
) (inner driver.Tx, err error) {
	if f == nil {
		return c.beginBare(ctx, o)
	}
	err = c.guard.Begun(ctx, f, func() error {
		return c.guard.Raise(ctx, f, func() error { return c.raise(ctx, f) })
	}, func() (err error) {
		if by := c.guard.Begin; by != nil {
			if tx, ok, err := by(ctx, c.Conn, o, f); ok {
				inner = tx
				return err
			}
		}
		if inner, err = c.beginBare(ctx, o); err != nil {
			return err
		}
		if err = c.check(ctx, f); err != nil {
			c.undo(inner)
		}
		return err
	})
	return inner, broken(ctx, err)
}

// undo rolls back. SQLite may have done so. A connection that fails to is given
// up.
func (c *conn) undo(own driver.Tx) {
	if own.Rollback() != nil {
		open, err := c.isOpen(context.Background())
		c.bad = open || err != nil
	}
}

// broken has database/sql take another connection if the link of this one to the
// server is broken: nothing is done.
func broken(ctx context.Context, err error) error {
	_, link := errors.AsType[net.Error](err)
	if ctx.Err() == nil &&
		(link || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return driver.ErrBadConn
	}
	return err
}

func (c *conn) beginBare(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if b, ok := c.Conn.(driver.ConnBeginTx); ok {
		return b.BeginTx(ctx, o)
	}
	if sql.IsolationLevel(o.Isolation) != sql.LevelDefault || o.ReadOnly {
		return nil, errors.New("sql: driver does not support non-default isolation level or " +
			"read-only transactions")
	}
	inner, err := c.Conn.Begin() //nolint:staticcheck // what the driver has
	if err == nil && ctx.Err() != nil {
		return nil, errors.Join(ctx.Err(), inner.Rollback())
	}
	return inner, err
}

// tx is a driver's transaction.
type tx struct {
	driver.Tx

	c      *conn
	closed func()
}

func (t *tx) Commit() error   { t.over(); return t.Tx.Commit() }
func (t *tx) Rollback() error { t.over(); return t.Tx.Rollback() }

func (t *tx) over() {
	t.c.inTx, t.c.reads, t.c.fence, t.c.doubt, t.c.gone = false, false, nil, false, false
	t.closed()
}

// raise runs outside of a transaction.
func (c *conn) raise(ctx context.Context, f *fence.Fence) error {
	if f.Dialect == fence.MySQL {
		var err error
		if f, err = c.low(ctx, f); err != nil || f == nil {
			return err
		}
	}
	for _, text := range f.Raise() {
		if err := c.do(ctx, text); err != nil {
			if c.do(context.WithoutCancel(ctx), "ROLLBACK") != nil {
				c.bad = true
			}
			return err
		}
	}
	return nil
}

// low is what of f is to be raised, by MySQL, whose INSERT would wait for those
// who share a row that is high enough: one's own transactions, perhaps.
func (c *conn) low(ctx context.Context, f *fence.Fence) (*fence.Fence, error) {
	if !c.guard.Engine.Load() {
		rows, err := c.all(ctx, fence.MySQLEngine)
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 && rows[0][1] != "InnoDB" {
			return nil, f.Dialect.Table(fmt.Sprintf("its engine is %s, which locks no rows",
				rows[0][1]))
		}
		on, err := c.all(ctx, "SELECT @@autocommit")
		if err != nil || len(on) == 0 || on[0][0] != "1" {
			return nil, cmp.Or(err, fence.ErrManual)
		}
		c.guard.Engine.Store(len(rows) > 0)
	}
	rows, err := c.all(ctx, f.Read())
	if err != nil {
		return nil, err
	}
	low, err := f.Low(rows)
	return low, f.Err(ctx, err)
}

// check runs in the transaction.
func (c *conn) check(ctx context.Context, f *fence.Fence) error {
	if f.Dialect == fence.PostgreSQL {
		if result, err := c.exec(ctx, f.Share(), nil); err == nil {
			n, err := result.RowsAffected()
			if err == nil && n == int64(len(f.Locks)) {
				return nil
			}
		} else if !errors.Is(err, driver.ErrSkip) {
			return err
		}
		return c.do(ctx, f.Check())
	}
	if f.Dialect == fence.SQLite {
		for _, text := range f.Raise() {
			if err := c.do(ctx, text); err != nil {
				return err
			}
		}
	}
	rows, err := c.all(ctx, f.Check())
	if err != nil {
		return err
	}
	return f.Verdict(rows)
}

// do runs a text without arguments, prepared if the driver has no other way.
func (c *conn) do(ctx context.Context, text string) error {
	_, err := c.exec(ctx, text, nil)
	if !errors.Is(err, driver.ErrSkip) {
		return err
	}
	inner, err := c.prepare(ctx, text)
	if err != nil {
		return err
	}
	s := &stmt{Stmt: inner}
	_, err = s.exec(ctx, nil)
	return errors.Join(err, inner.Close())
}

// all are the rows of a text without arguments.
func (c *conn) all(ctx context.Context, text string) (all [][]string, err error) {
	rows, err := c.query(ctx, text, nil)
	if errors.Is(err, driver.ErrSkip) {
		var inner driver.Stmt
		if inner, err = c.prepare(ctx, text); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, inner.Close()) }()
		s := &stmt{Stmt: inner}
		rows, err = s.queried(ctx, nil)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	values := make([]driver.Value, len(rows.Columns()))
	for {
		err := rows.Next(values)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		texts := make([]string, len(values))
		for i, v := range values {
			if b, ok := v.([]byte); ok {
				v = string(b)
			}
			texts[i] = fmt.Sprint(v)
		}
		all = append(all, texts)
	}
}
