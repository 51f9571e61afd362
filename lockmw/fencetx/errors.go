package fencetx

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/internal/sqlfault"
	"github.com/lockbeat/lockbeat/renewer"
)

// failure is an error of this package, other than a loss.
type failure struct {
	why   string // what has happened, and what to do
	kind  error  // of package renewer, or the context's own; nil if only the driver's will do
	below error  // the driver's error, or the cause of the context's end; nil if there is none
}

// Error says what to do, and then what the driver has said.
func (f *failure) Error() string {
	text := "lockbeat: fence a transaction: " + f.why
	if f.below != nil {
		text += ": " + strings.TrimPrefix(f.below.Error(), "lockbeat: ")
	}
	return text
}

// Unwrap gives errors.Is and errors.As the kind and the driver's error.
func (f *failure) Unwrap() (errs []error) {
	for _, err := range []error{f.kind, f.below} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// lost is the error of a holder whom a later one has overtaken. err is the driver's, or nil.
func (l lock) lost(higher string, err error) error {
	text := fmt.Sprintf("a later holder has fenced a transaction: %s, this lock's is %d. If "+
		"no other has the lock, its store has lost data and its clock has gone back: all are "+
		"refused until tokens have risen above that", higher, l.token)
	return &renewer.LostError{
		Name: l.name, Reason: renewer.ReasonTaken, Fence: l.token, Err: sqlfault.Tell(err, text),
	}
}

// failed is the caller's error of a statement; nil stays nil. schema names the table's text.
func failed(ctx context.Context, err error, schema string) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return &failure{"roll back, since the context has ended", ctx.Err(), context.Cause(ctx)}
	case errors.Is(err, sql.ErrTxDone), err.Error() == "tx is closed": // pgx.ErrTxClosed
		return &failure{"begin another one, since it was committed or rolled back before, or the " +
			"context that it was begun with has ended", renewer.ErrConfig, err}
	}
	why, kind := advice(sqlfault.Of(err), schema)
	return &failure{why, kind, err}
}

// advice is what to do about a fault, and its kind.
func advice(fault sqlfault.Fault, schema string) (why string, kind error) {
	switch fault {
	case sqlfault.Conflict, sqlfault.Busy, sqlfault.Waited:
		why = "roll back and run the transaction again, since another one is in the way"
	case sqlfault.Aborted:
		why = "roll back, since a statement has failed before; heed that one's error"
	case sqlfault.ReadOnly:
		why = "it is read-only: begin without sql.TxOptions.ReadOnly, at the primary"
	case sqlfault.NoTable:
		why = "the table is missing: make it, by fencetx." + schema
	case sqlfault.Shape:
		why = "the table is another one: make it anew, by fencetx." + schema
	case sqlfault.Dialect:
		why = "the database is of another kind: call the function of fencetx that is for it"
	case sqlfault.NoRight:
		why = "the user needs rights: GRANT SELECT, INSERT, UPDATE ON lockbeat_fences"
	default:
		why = "roll back, since the statement has failed"
	}
	if fault.Permanent() {
		kind = renewer.ErrRejected
	}
	return why, kind
}
