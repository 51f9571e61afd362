package sqlrecord

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/intx"
	"github.com/lockbeat/lockbeat/lockmw/internal/sqlfault"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

type txKey struct{}

// Tx is the transaction of the attempt that ctx belongs to, of several the
// innermost; nil outside of [once.Do] with a [Recorder].
func Tx(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(txKey{}).(*sql.Tx)
	return tx
}

// Transact calls fn in a new transaction, and commits it with the record that
// fn returns: see [once.Transactional]. fn's context carries the transaction:
// see [Tx].
func (r *recorder) Transact(
	ctx context.Context, fn func(context.Context) (store.Record, error),
) error {
	whole, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	tx, err := r.begin(ctx, whole, end)
	if err != nil {
		return err
	}
	defer func() { _ = r.rollBack(tx, end) }()
	record, err := fn(context.WithValue(intx.Mark(ctx, &r.lockInside), txKey{}, tx))
	if err != nil {
		return r.failed(tx, end, err)
	}
	if err := r.write(whole, tx, record); err != nil { // it is rolled back
		if errors.Is(err, errEnded) {
			return once.Permanent(err)
		}
		return err
	}
	q := r.question("commit the record of", record.Name, record.Fence)
	limit := time.AfterFunc(r.timeout, end)
	defer limit.Stop()
	switch err := tx.Commit(); {
	case err == nil:
		return nil
	case whole.Err() != nil:
		return q.fail(errCommit, databaseError{lateError{err, r.timeout}})
	case inConflict(err):
		return q.fail(once.ErrConflict, databaseError{err})
	default:
		return q.fail(errCommit, databaseError{err}) // whatever it says: the row will show
	}
}

// failed rolls back the transaction of a function that has failed, and returns
// its error: as it is, unless it means a conflict, or the function has ended
// the transaction itself. What an inner work ended by is no conflict of this
// one.
func (r *recorder) failed(tx *sql.Tx, end context.CancelFunc, err error) error {
	q := r.question("lockbeat: run the function in a transaction", "", 0)
	_, inner := errors.AsType[*once.Error](err)
	switch {
	case errors.Is(r.rollBack(tx, end), sql.ErrTxDone):
		return once.Permanent(q.fail(renewer.ErrConfig, fmt.Errorf("%w: %w", errEnded, err)))
	case sqlfault.Of(err) == sqlfault.Conflict && !inner: // SQLite's transaction writes alone
		return q.fail(once.ErrConflict, err)
	default:
		return err
	}
}

// rollBack ends a transaction, unless it is committed. If the server does not
// answer within Timeout, the connection is given up, and the server undoes the
// transaction when it notices.
func (r *recorder) rollBack(tx *sql.Tx, end context.CancelFunc) error {
	limit := time.AfterFunc(r.timeout, end)
	defer limit.Stop()
	return tx.Rollback()
}

// begin begins a transaction that lives as long as whole does. Until
// it has begun, it ends with ctx.
func (r *recorder) begin(
	ctx, whole context.Context, end context.CancelFunc,
) (*sql.Tx, error) {
	q := r.question("begin a transaction", "", 0)
	limit, leave := time.AfterFunc(r.timeout, end), context.AfterFunc(ctx, end)
	tx, err := r.db.BeginTx(whole, nil)
	if err == nil && r.dialect == sqlite {
		_, err = tx.ExecContext(whole, r.text.claim)
	}
	if !leave() || !limit.Stop() {
		end() // if that is not done yet
		err = cmp.Or(err, context.Cause(whole))
	}
	if err == nil {
		return tx, nil
	}
	if tx != nil {
		_ = r.rollBack(tx, end)
	}
	return nil, q.failed(ctx, whole, err)
}

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
