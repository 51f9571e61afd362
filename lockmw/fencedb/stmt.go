package fencedb

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"

	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
)

// outside is the fence that a statement needs a transaction of its own for, nil
// if it needs none.
func (c *conn) outside(ctx context.Context, query string) (f *fence.Fence, err error) {
	if c.doubt {
		open, err := c.isOpen(ctx)
		if err != nil {
			return nil, err
		}
		c.doubt, c.gone = false, c.gone || !open
	}
	switch {
	case c.gone:
		return nil, fence.ErrGone
	case c.inTx:
		return nil, c.guard.InTx(ctx, c.fence, c.reads, query)
	}
	f, kind, err := c.guard.Outside(ctx, query)
	if f != nil || err != nil {
		if open, unknown := c.openByText(ctx); open || unknown != nil {
			return nil, cmp.Or(unknown, c.guard.InTx(ctx, nil, false, query))
		}
	}
	if kind == fence.Reads && err == nil {
		err = c.first(ctx)
	}
	c.byText = c.byText || err == nil && (kind == fence.Begins || kind == fence.Commits)
	return f, err
}

// exec runs a statement with so many arguments by do, in a transaction of its
// own if it needs one.
func exec[R any](
	ctx context.Context, c *conn, query string, args int, do func() (R, error),
) (result R, err error) {
	f, err := c.outside(ctx, query)
	if err != nil {
		return result, err
	}
	if f == nil {
		result, err = do()
		if !errors.Is(err, driver.ErrSkip) {
			c.note(err != nil || c.guard.Dialect.Hides(query))
		}
		if r, ok := any(result).(driver.Rows); ok && c.mayUndo() && err == nil {
			result, _ = any(&rows{Rows: r, c: c}).(R)
		}
		return result, err
	}
	if args > 0 && c.skips > 1 {
		return result, driver.ErrSkip
	}
	own, err := c.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		return result, err
	}
	result, err = do()
	if err != nil { // ErrSkip, too: then database/sql prepares the statement, and comes again
		if args > 0 && errors.Is(err, driver.ErrSkip) {
			c.skips++
		}
		c.undo(own)
		return result, fence.Alone(err)
	}
	if args > 0 {
		c.skips = 0
	}
	if r, ok := any(result).(driver.Rows); ok {
		result, _ = any(&rows{Rows: r, own: own, c: c}).(R)
		return result, nil
	}
	return result, c.commit(own)
}

// mayUndo reports whether the database may end the transaction if a statement
// fails, and would commit what follows. PostgreSQL refuses that.
func (c *conn) mayUndo() bool {
	return c.inTx && c.fence != nil && c.guard.Dialect != fence.PostgreSQL
}

// note keeps whether the transaction may be over.
func (c *conn) note(doubt bool) { c.doubt = c.doubt || doubt && c.mayUndo() }

// commit ends a statement's own transaction. database/sql runs a statement
// again whose error is ErrBadConn: this one may be done.
func (c *conn) commit(own driver.Tx) error {
	err := own.Commit()
	if !errors.Is(err, driver.ErrBadConn) {
		return err
	}
	c.bad = true
	return fence.ErrUnknown
}

func (c *conn) ExecContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Result, error) {
	return exec(ctx, c, query, len(args), func() (driver.Result, error) {
		return c.exec(ctx, query, args)
	})
}

func (c *conn) exec(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Result, error) {
	if e, ok := c.Conn.(driver.ExecerContext); ok {
		return e.ExecContext(ctx, query, args)
	}
	return nil, driver.ErrSkip // also with driver.Execer: its statements do the same
}

func (c *conn) QueryContext(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Rows, error) {
	return exec(ctx, c, query, len(args), func() (driver.Rows, error) {
		return c.query(ctx, query, args)
	})
}

func (c *conn) query(
	ctx context.Context, query string, args []driver.NamedValue,
) (driver.Rows, error) {
	if q, ok := c.Conn.(driver.QueryerContext); ok {
		return q.QueryContext(ctx, query, args)
	}
	return nil, driver.ErrSkip
}

// plain are the arguments for a driver that knows neither contexts nor names.
func plain(ctx context.Context, args []driver.NamedValue) ([]driver.Value, error) {
	values := make([]driver.Value, len(args))
	for i, a := range args {
		if a.Name != "" {
			return nil, errors.New("sql: driver does not support the use of Named Parameters")
		}
		values[i] = a.Value
	}
	return values, ctx.Err()
}

// stmt is a driver's prepared statement.
type stmt struct {
	driver.Stmt

	c     *conn
	query string
}

// columnStmt is one whose driver converts arguments by column. To database/sql
// a statement that has the method always does, so this is a type of its own.
type columnStmt struct {
	*stmt
	driver.ColumnConverter
}

// CheckNamedValue asks the statement, else the connection, whom database/sql
// would ask if this method were not here.
func (s *stmt) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := s.Stmt.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return s.c.CheckNamedValue(v)
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return exec(ctx, s.c, s.query, 0, func() (driver.Result, error) { return s.exec(ctx, args) })
}

func (s *stmt) exec(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if e, ok := s.Stmt.(driver.StmtExecContext); ok {
		return e.ExecContext(ctx, args)
	}
	values, err := plain(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.Stmt.Exec(values) //nolint:staticcheck // what the driver has
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return exec(ctx, s.c, s.query, 0, func() (driver.Rows, error) { return s.queried(ctx, args) })
}

func (s *stmt) queried(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	if q, ok := s.Stmt.(driver.StmtQueryContext); ok {
		return q.QueryContext(ctx, args)
	}
	values, err := plain(ctx, args)
	if err != nil {
		return nil, err
	}
	return s.Stmt.Query(values) //nolint:staticcheck // what the driver has
}
