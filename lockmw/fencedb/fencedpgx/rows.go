package fencedpgx

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// rows are those of a query that has a transaction of its own. That ends before
// the caller hears that there are no more. As pgx's, they are closed by an
// error.
type rows struct {
	pgx.Rows

	end  func() error // the transaction; a query that has failed has undone it
	over bool
	late error
}

func (r *rows) Next() bool {
	if r.Rows.Next() {
		return true
	}
	r.Close()
	return false
}

func (r *rows) Scan(dest ...any) error {
	err := r.Rows.Scan(dest...)
	if err != nil {
		r.Close()
	}
	return err
}

func (r *rows) Values() ([]any, error) {
	values, err := r.Rows.Values()
	if err != nil {
		r.Close()
	}
	return values, err
}

func (r *rows) Close() {
	r.Rows.Close()
	if !r.over {
		r.over = true
		r.late = r.end()
	}
}

func (r *rows) Err() error {
	if err := r.Rows.Err(); err != nil {
		return err
	}
	return r.late
}

// row is the first of rows.
type row struct {
	rows pgx.Rows
	err  error
}

func (r row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.rows.Close()
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return pgx.ErrNoRows
	}
	if err := r.rows.Scan(dest...); err != nil {
		return err
	}
	r.rows.Close()
	return r.rows.Err()
}

// failedRows are those of a query that was not sent. As pgx's, they have the
// error, too.
type failedRows struct {
	pgx.Rows

	err error
}

func (failedRows) Close()                                       {}
func (r failedRows) Err() error                                 { return r.err }
func (failedRows) Next() bool                                   { return false }
func (r failedRows) Scan(...any) error                          { return r.err }
func (r failedRows) Values() ([]any, error)                     { return nil, r.err }
func (failedRows) RawValues() [][]byte                          { return nil }
func (failedRows) TypeMap() *pgtype.Map                         { return nil }
func (failedRows) Conn() *pgx.Conn                              { return nil }
func (failedRows) CommandTag() (tag pgconn.CommandTag)          { return tag }
func (failedRows) FieldDescriptions() []pgconn.FieldDescription { return nil }
