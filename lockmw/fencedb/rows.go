package fencedb

import (
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
)

// rows are those of a statement in a transaction. If that is the statement's
// own, it ends before the caller hears that there are no more: an error of
// Close goes unheard by callers who loop.
type rows struct {
	driver.Rows

	own  driver.Tx // nil: the caller's
	c    *conn
	over bool
	err  error
}

func (r *rows) Next(dest []driver.Value) error {
	err := r.Rows.Next(dest)
	switch {
	case err == nil, errors.Is(err, io.EOF) && r.HasNextResultSet():
		return err
	case errors.Is(err, io.EOF):
		if late := r.end(true); late != nil {
			return late
		}
	default:
		_ = r.end(false)
		r.c.note(true)
	}
	return err
}

// Close commits: a caller who leaves early, as for a single row, has not asked
// to undo it.
func (r *rows) Close() error { return r.end(true) }

func (r *rows) end(commit bool) error {
	if r.over {
		return r.err
	}
	r.over = true
	r.err = r.Rows.Close()
	switch {
	case r.own == nil:
		r.c.note(r.err != nil)
	case r.err == nil && commit:
		r.err = r.c.commit(r.own)
	default:
		r.c.undo(r.own)
	}
	return r.err
}

func (r *rows) HasNextResultSet() bool {
	n, ok := r.Rows.(driver.RowsNextResultSet)
	return ok && !r.over && n.HasNextResultSet()
}

func (r *rows) NextResultSet() error {
	if n, ok := r.Rows.(driver.RowsNextResultSet); ok && !r.over {
		return n.NextResultSet()
	}
	return io.EOF
}

func (r *rows) ColumnTypeScanType(i int) reflect.Type {
	if t, ok := r.Rows.(driver.RowsColumnTypeScanType); ok {
		return t.ColumnTypeScanType(i)
	}
	return reflect.TypeFor[any]()
}

func (r *rows) ColumnTypeDatabaseTypeName(i int) string {
	if t, ok := r.Rows.(driver.RowsColumnTypeDatabaseTypeName); ok {
		return t.ColumnTypeDatabaseTypeName(i)
	}
	return ""
}

func (r *rows) ColumnTypeLength(i int) (int64, bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypeLength); ok {
		return t.ColumnTypeLength(i)
	}
	return 0, false
}

func (r *rows) ColumnTypeNullable(i int) (nullable, ok bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypeNullable); ok {
		return t.ColumnTypeNullable(i)
	}
	return false, false
}

func (r *rows) ColumnTypePrecisionScale(i int) (precision, scale int64, ok bool) {
	if t, ok := r.Rows.(driver.RowsColumnTypePrecisionScale); ok {
		return t.ColumnTypePrecisionScale(i)
	}
	return 0, 0, false
}
