package sqlrecord

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Defaults of the options.
const (
	// DefaultTable is the table of the records.
	DefaultTable = "lockbeat_once"
	// DefaultTimeout is how long a question to the database may take.
	DefaultTimeout = 5 * time.Second
)

// Recorder keeps records in a table. Its methods may be called concurrently.
type Recorder struct {
	db      *sql.DB
	dialect Dialect
	table   string
	timeout time.Duration
	options sql.TxOptions
	text    statements
}

var _ once.Transactional = (*Recorder)(nil)

// Option says what one [New] makes.
type Option func(*Recorder)

// Table is the name of the table: letters, digits and underscores, and before them, if need be,
// that of its schema and a dot. It is not quoted: a word that SQL reserves, such as order, is none.
// Default [DefaultTable].
func Table(name string) Option { return func(r *Recorder) { r.table = name } }

// Timeout is how long a question to the database may take, a wait for a connection, for a row's
// lock and for COMMIT included: positive. It does not bound the function. Default [DefaultTimeout],
// 5 s.
func Timeout(d time.Duration) Option { return func(r *Recorder) { r.timeout = d } }

// TxOptions is how the function's transactions are begun: their isolation level. With PostgreSQL it
// may be any that PostgreSQL has; with SQLite, whose transactions are serializable, no other.
// ReadOnly is refused, since the record is written in the same transaction. At the stricter levels
// transactions are in conflict more often: see [once.ErrConflict]. Default: the zero value, by
// which the database decides; PostgreSQL takes READ COMMITTED unless it is set up otherwise.
func TxOptions(o sql.TxOptions) Option { return func(r *Recorder) { r.options = o } }

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,56}$`)

// New returns a recorder that keeps records in db. It asks the database nothing: the table may be
// made later, by [Recorder.Schema]. The error is [renewer.ErrConfig] and names every fault.
func New(db *sql.DB, dialect Dialect, opts ...Option) (*Recorder, error) {
	r := &Recorder{db: db, dialect: dialect, table: DefaultTable, timeout: DefaultTimeout}
	for _, opt := range opts {
		opt(r)
	}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: sqlrecord."+format,
			append([]any{renewer.ErrConfig}, args...)...))
	}
	if db == nil {
		fault("New needs a database (sql.Open)")
	}
	if dialect != PostgreSQL && dialect != SQLite {
		fault("New knows no %v: give PostgreSQL or SQLite", dialect)
	}
	if !tableName.MatchString(r.table) {
		fault("Table is %.80q: give letters, digits and underscores, after SCHEMA and a dot if "+
			"need be, or leave it out for %s", r.table, DefaultTable)
	}
	if dialect == SQLite && strings.Contains(r.table, ".") {
		fault("Table is %.80q: with SQLite it must be in the main database, since a transaction "+
			"over several is not atomic", r.table)
	}
	if r.timeout <= 0 {
		fault("Timeout is %v: give a positive duration, or leave it out for %v", r.timeout,
			DefaultTimeout)
	}
	if why := r.noSuchTx(); why != "" {
		fault("TxOptions has %s", why)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	r.text = newStatements(dialect, r.table)
	return r, nil
}

// noSuchTx says why transactions can't be begun by TxOptions; it is "" if they can.
func (r *Recorder) noSuchTx() string {
	level := r.options.Isolation
	switch {
	case r.options.ReadOnly:
		return "ReadOnly: the record is written in the same transaction; leave that out"
	case level == sql.LevelDefault, level == sql.LevelSerializable:
		return ""
	case r.dialect == SQLite:
		return fmt.Sprintf("the isolation level %v: transactions of SQLite are serializable; "+
			"leave it out", level)
	case level == sql.LevelReadUncommitted, level == sql.LevelReadCommitted,
		level == sql.LevelRepeatableRead:
		return ""
	default:
		return fmt.Sprintf("the isolation level %v, which PostgreSQL has not: give Read "+
			"Committed, Repeatable Read or Serializable", level)
	}
}

// Schema returns the statements that make the table and its index, each ended by a semicolon. They
// do nothing where these exist. No user needs more rights on it than to select, insert, update and
// delete.
func (r *Recorder) Schema() string { return r.text.schema }

// DeleteLapsed removes the rows of records that have lapsed, and returns how many there were. They
// are read by no one, and take space. It takes as long as ctx lets it: [Timeout] does not bound it.
// The error is [renewer.ErrUnavailable] or the context's own.
func (r *Recorder) DeleteLapsed(ctx context.Context) (int64, error) {
	var n int64
	err := insist(ctx, func() (err error) {
		n, err = affected(r.db.ExecContext(ctx, r.text.lapsed))
		return err
	})
	return n, r.question("lockbeat: delete lapsed records", "", 0).failed(ctx, ctx, err)
}

// Read reads the record of a name: see [once.Recorder].
func (r *Recorder) Read(ctx context.Context, name string) (store.Seen, error) {
	q := r.question("read the record of", name, 0)
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var seen store.Seen
	err := insist(limited, func() (err error) {
		seen, err = scan(r.db.QueryRowContext(limited, r.text.read, []byte(name)))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return store.Seen{Status: renewer.StatusHeld}, nil
	}
	return shown(seen), q.failed(ctx, limited, err)
}

// Prepare begins a holder's term: see [once.Recorder].
func (r *Recorder) Prepare(ctx context.Context, term store.Term) (store.Seen, error) {
	q := r.question("prepare the record of", term.Name, term.Fence)
	switch {
	case term.Fence < 1:
		return store.Seen{}, q.fail(renewer.ErrConfig, errors.New(
			"it has no fencing token: only who has the lock may prepare; others read"))
	case term.TTL < time.Millisecond:
		return store.Seen{}, q.fail(renewer.ErrConfig, errTTL)
	}
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	for {
		var seen store.Seen
		var dropped int64
		err := insist(limited, func() (err error) {
			seen, err = scan(r.db.QueryRowContext(limited, r.text.prepare, []byte(term.Name),
				term.Fence, term.TTL.Milliseconds(), []byte{}))
			return err
		})
		refused := errors.Is(err, sql.ErrNoRows)
		if !refused && (err != nil || seen.TTL > 0) {
			return shown(seen), q.failed(ctx, limited, err)
		}
		// What is there may have lapsed, and be as nothing.
		err = insist(limited, func() (err error) {
			dropped, err = affected(r.db.ExecContext(limited, r.text.drop, []byte(term.Name)))
			return err
		})
		switch {
		case err != nil:
			return store.Seen{}, q.failed(ctx, limited, err)
		case dropped == 0 && refused:
			var above int64
			_ = r.db.QueryRowContext(limited, r.text.why, []byte(term.Name)).Scan(&above)
			return store.Seen{}, q.lost(above)
		}
	}
}
