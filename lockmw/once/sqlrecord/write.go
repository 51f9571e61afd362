package sqlrecord

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

var (
	errTTL = errors.New("its TTL is below 1ms: say how long the record is to live")
	errSeq = errors.New("the same holder has written this Seq, or a higher one, before")
)

// Write replaces or erases the record of a name: see [once.Recorder].
func (r *recorder) Write(ctx context.Context, record store.Record) error {
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	return insist(limited, func() error { return r.write(ctx, r.db, record) })
}

// querier is a database or a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// write is Write, in a transaction or by itself.
func (r *recorder) write(ctx context.Context, in querier, record store.Record) error {
	q := r.question("write the record of", record.Name, record.Fence)
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	name := []byte(record.Name)
	var changed int64
	var err error
	switch {
	case record.Erase:
		changed, err = affected(in.ExecContext(limited, r.text.erase, name, record.Fence,
			record.Seq))
	case record.TTL < time.Millisecond:
		return q.fail(renewer.ErrConfig, errTTL)
	default:
		changed, err = affected(in.ExecContext(limited, r.text.write, name, record.Fence,
			record.Seq, []byte(record.Data), record.TTL.Milliseconds()))
	}
	if err != nil || changed > 0 {
		return q.failed(ctx, limited, err)
	}
	var term int64
	switch err := in.QueryRowContext(limited, r.text.why, name).Scan(&term); {
	case errors.Is(err, sql.ErrNoRows), err == nil && term < record.Fence:
		return q.fail(store.ErrNoRecord, nil)
	case err != nil:
		return q.failed(ctx, limited, err)
	case term > record.Fence:
		return q.lost(term)
	default:
		return q.fail(renewer.ErrConfig, errSeq)
	}
}

// affected is how many rows a statement has changed.
func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// scan reads a record. Its TTL may be 0 or less, if it has lapsed.
func scan(row *sql.Row) (store.Seen, error) {
	var data []byte
	var left int64
	seen := store.Seen{Status: store.StatusHeld}
	if err := row.Scan(&seen.Fence, &seen.Seq, &data, &left); err != nil {
		return store.Seen{}, err
	}
	seen.Data, seen.TTL = string(data), time.Duration(left)*time.Millisecond
	return seen, nil
}

// shown is what callers see: a term in which nothing was written has no record
// that lives.
func shown(seen store.Seen) store.Seen {
	if seen.Fence == 0 {
		seen.TTL = 0
	}
	return seen
}
