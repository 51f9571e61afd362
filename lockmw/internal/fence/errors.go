package fence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/internal/sqlfault"
	"github.com/lockbeat/lockbeat/renewer"
)

// Error is an error of this package, other than a loss.
type Error struct {
	Why   string // what has happened, and what to do
	Kind  error  // of package renewer, or the context's own; nil if only the driver's will do
	Below error  // the driver's error, or the cause of the context's end; nil if there is none
}

// Error says what to do, and then what the driver has said.
func (f *Error) Error() string {
	text := "lockbeat: fence a transaction: " + f.Why
	if f.Below != nil {
		text += ": " + strings.TrimPrefix(f.Below.Error(), "lockbeat: ")
	}
	return text
}

// Unwrap gives errors.Is and errors.As the kind and the driver's error.
func (f *Error) Unwrap() (errs []error) {
	for _, err := range []error{f.Kind, f.Below} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// Lost is the error of a holder whom a later one has overtaken. err is the
// driver's, or nil.
func (l Lock) Lost(higher string, err error) error {
	text := fmt.Sprintf("a later holder has fenced a transaction: %s, this lock's is %d. If "+
		"no other has the lock, its store has lost data and its clock has gone back: all are "+
		"refused until tokens have risen above that", higher, l.Token)
	return &renewer.LostError{
		Name: l.Name, Reason: renewer.ReasonTaken, Fence: l.Token, Err: sqlfault.Tell(err, text),
	}
}

// errRaise means that a row has a lower token, or is missing.
var errRaise = errors.New("lockbeat: the fence is not raised")

// What a connection refuses since it would have no fence.
var (
	ErrOpen error = &Error{"end the transaction that is open on this connection, or begin on " +
		"another one: to begin here would commit that", renewer.ErrConfig, nil}
	ErrGone error = &Error{
		"roll back and run the transaction again: the database has ended it, since a statement " +
			"failed before or a procedure has committed, and would commit what follows at once",
		renewer.ErrConfig, nil,
	}
	ErrPipe error = &Error{"begin a transaction, and send the batch in it: under a lock a " +
		"batch of its own has queries, INSERT, UPDATE, DELETE and MERGE alone, since others may " +
		"commit within it", renewer.ErrConfig, nil}
	ErrManual error = &Error{"leave autocommit on (autocommit=0 is in the DSN, or the server's " +
		"default): without it there is no time outside of a transaction", renewer.ErrConfig, nil}
	ErrUnknown error = &Error{"look before you run the statement again: the connection has " +
		"ended while it was committed, and it is unknown whether that was done", nil, nil}
)

// Undecided is the error of what was sent in one go with its fence and COMMIT,
// when ctx has ended before the answer.
func Undecided(ctx context.Context) error {
	return &Error{"look before you run the statement again: the context has ended before the " +
		"answer, and it is unknown whether that was done", ctx.Err(), context.Cause(ctx)}
}

// IsOpen asks whether a transaction is open, by a text whose error says it. It
// may be undone by a statement that has failed, and ended by one that does not
// look so.
func (d Dialect) IsOpen(do func(text string) error) (bool, error) {
	text, words := "SAVEPOINT lockbeat; RELEASE lockbeat", ""
	switch d {
	case MySQL:
		text, words = "SET TRANSACTION READ WRITE", "Error 1568"
	case SQLite:
		text, words = "BEGIN", "within a transaction"
	case PostgreSQL:
	}
	err := do(text)
	switch {
	case err == nil && d == PostgreSQL, sqlfault.Of(err) == sqlfault.Aborted,
		err != nil && words != "" && strings.Contains(err.Error(), words):
		return true, nil
	case err == nil, state(err) == "25P01":
		return false, do("ROLLBACK") // what the text has begun
	}
	return false, err
}

// state is PostgreSQL's SQLSTATE, or "".
func state(err error) string {
	var coded interface{ SQLState() string }
	if errors.As(err, &coded) {
		return coded.SQLState()
	}
	return ""
}

// Err is the caller's error of a statement of this fence, where no transaction
// is left open: nil, a loss, errRaise, or one that says what to do.
func (f *Fence) Err(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, errRaise) || errors.Is(err, renewer.ErrLost) ||
		errors.Is(err, ErrManual) ||
		errors.Is(err, driver.ErrBadConn) { // with which database/sql tries another connection
		return err
	}
	if lost := Overtaken(err, f.Locks); lost != nil {
		return lost
	}
	return f.Dialect.failed(ctx, err, "")
}

// Hides reports whether the transaction that a statement is in may end within
// it.
func (d Dialect) Hides(query string) bool { return d == MySQL && d.firstWord(query) == "call" }

// Pipes reports whether PostgreSQL surely commits nothing within a statement
// that is sent in one go with its fence, with no BEGIN before. It may in CALL
// and VACUUM, say, and in what is prepared under a name.
func Pipes(query string) bool {
	switch PostgreSQL.firstWord(query) {
	case "select", "with", "values", "table", "insert", "update", "delete", "merge", "set", "show":
		_, several := PostgreSQL.KindOf(query)
		return !several
	}
	return false
}

// Alone is the caller's error of a statement in a transaction of its own.
func Alone(err error) error {
	if err != nil && (state(err) == "25001" || noTransaction.MatchString(err.Error())) {
		return &Error{"run this statement with a context that is under no lock: under one it " +
			"is in a transaction, with the fence", renewer.ErrConfig, err}
	}
	return err
}

// noTransaction finds what SQLite says of statements that are for none.
var noTransaction = regexp.MustCompile(`(within|inside) a transaction`)

// higher finds what was cast in PostgreSQL's message, whatever language the
// rest is in.
var higher = regexp.MustCompile(`lock_hash=(\w{16}) has the token (\d+)`)

// Overtaken is the error of the lock whose row has another token, if that is
// what err says: a loss or, if that is none that is higher, errRaise.
func Overtaken(err error, locks []Lock) error {
	if err == nil {
		return nil
	}
	found := higher.FindStringSubmatch(err.Error())
	if found == nil {
		return nil
	}
	for _, l := range locks {
		if renewer.HashName(l.Name, nil) != found[1] {
			continue
		}
		if token, _ := strconv.ParseInt(found[2], 10, 64); token <= l.Token {
			return errRaise
		}
		return l.Lost("the row's token is "+found[2], err)
	}
	return nil
}

// Failed is the caller's error of a statement in its transaction; nil stays nil.
func (d Dialect) Failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	return d.failed(ctx, err, "roll back: ")
}

// failed is the caller's error, which says first what to do with the
// transaction, if there is one.
func (d Dialect) failed(ctx context.Context, err error, first string) error {
	switch {
	case ctx.Err() != nil:
		return &Error{first + "the context has ended", ctx.Err(), context.Cause(ctx)}
	case errors.Is(err, sql.ErrTxDone), err.Error() == "tx is closed": // pgx.ErrTxClosed
		return &Error{"begin another one, since it was committed or rolled back before, or the " +
			"context that it was begun with has ended", renewer.ErrConfig, err}
	}
	why, kind := d.advice(sqlfault.Of(err))
	if kind == nil {
		why = first + why
	}
	return &Error{why, kind, err}
}

// schema names the table's text.
func (d Dialect) schema() string {
	return "fencetx." + [...]string{"", "PostgreSQLSchema", "MySQLSchema", "SQLiteSchema"}[d]
}

// Table is the error of a table with which nothing is refused.
func (d Dialect) Table(why string) error {
	return &Error{
		why + ": the table is another one; make it anew, by " + d.schema(),
		renewer.ErrRejected, nil,
	}
}

// advice is what to do about a fault, and its kind.
func (d Dialect) advice(fault sqlfault.Fault) (why string, kind error) {
	switch fault {
	case sqlfault.Conflict, sqlfault.Busy, sqlfault.Waited:
		why = "run the transaction again, since another one is in the way"
	case sqlfault.Aborted:
		why = "a statement has failed before; heed that one's error"
	case sqlfault.ReadOnly:
		why = "it is read-only: write at the primary, where transactions are not read-only by " +
			"default. What only reads needs no fence: begin it with sql.TxOptions.ReadOnly, or " +
			"pgx.ReadOnly"
	case sqlfault.NoTable:
		why = "the table is missing: make it, by " + d.schema()
	case sqlfault.Shape:
		why = "the table is another one: make it anew, by " + d.schema()
	case sqlfault.Dialect:
		why = "the database is of another kind: call the function of fencetx, or give fencedb " +
			"the dialect, that is for it"
	case sqlfault.NoRight:
		why = "the user needs rights: GRANT SELECT, INSERT, UPDATE ON lockbeat_fences"
	default:
		why = "the statement has failed"
	}
	if fault.Permanent() {
		kind = renewer.ErrRejected
	}
	return why, kind
}
