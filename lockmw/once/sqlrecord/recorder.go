package sqlrecord

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Recorder keeps records in a table, for [once.RecordIn]. Its methods may be
// called concurrently.
type Recorder interface {
	once.Transactional

	// Schema returns the statements that make the table and its index, where
	// they do not exist. Apply them with your other migrations. A user needs
	// the rights to select, insert, update and delete.
	Schema() string

	// DeleteLapsed removes the rows of records that have lapsed, which no one
	// reads, and returns how many there were. It takes as long as ctx lets it.
	// The error is [renewer.ErrUnavailable] or the context's own.
	DeleteLapsed(ctx context.Context) (int64, error)
}

type recorder struct {
	db      *sql.DB
	dialect dialect
	table   string
	timeout time.Duration
	text    statements

	lockInside sync.Once // a lock that was waited for in a transaction is reported
}

// Option is for [PostgreSQL] and [SQLite].
type Option func(*recorder)

// Table is the name of the table, with that of its schema and a dot before it
// if need be: letters, digits and underscores, not quoted. Default
// lockbeat_once.
func Table(name string) Option { return func(r *recorder) { r.table = name } }

// Timeout is how long a question to the database may take, with its wait for a
// connection, a row's lock and COMMIT. It does not bound the function. Default
// 5 s.
func Timeout(d time.Duration) Option { return func(r *recorder) { r.timeout = d } }

var tableName = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]{0,62}\.)?[A-Za-z_][A-Za-z0-9_]{0,56}$`)

// PostgreSQL returns a recorder that keeps records in db, PostgreSQL 10 or
// newer. It asks the database nothing. The error is [renewer.ErrConfig].
func PostgreSQL(db *sql.DB, opts ...Option) (Recorder, error) {
	return newRecorder(db, postgreSQL, opts)
}

// SQLite is [PostgreSQL] for SQLite 3.35 and newer.
func SQLite(db *sql.DB, opts ...Option) (Recorder, error) { return newRecorder(db, sqlite, opts) }

func newRecorder(db *sql.DB, d dialect, opts []Option) (Recorder, error) {
	r := &recorder{db: db, dialect: d, table: "lockbeat_once", timeout: 5 * time.Second}
	for _, opt := range opts {
		if opt != nil {
			opt(r)
		}
	}
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Errorf("%w: sqlrecord."+format,
			append([]any{renewer.ErrConfig}, args...)...))
	}
	if db == nil {
		fault("PostgreSQL and SQLite need a database (sql.Open)")
	}
	if !tableName.MatchString(r.table) {
		fault("Table is %.80q: give letters, digits and underscores, after SCHEMA and a dot if "+
			"need be, or leave it out for lockbeat_once", r.table)
	}
	if d == sqlite && strings.Contains(r.table, ".") {
		fault("Table is %.80q: with SQLite it must be in the main database, since a transaction "+
			"over several is not atomic", r.table)
	}
	if r.timeout <= 0 {
		fault("Timeout is %v: give a positive duration, or leave it out for 5s", r.timeout)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	r.text = newStatements(d, r.table)
	return r, nil
}

// Schema is that of [Recorder].
func (r *recorder) Schema() string { return r.text.schema }

// DeleteLapsed is that of [Recorder].
func (r *recorder) DeleteLapsed(ctx context.Context) (int64, error) {
	var n int64
	err := insist(ctx, func() (err error) {
		n, err = affected(r.db.ExecContext(ctx, r.text.lapsed))
		return err
	})
	return n, r.question("lockbeat: delete lapsed records", "", 0).failed(ctx, ctx, err)
}

// Read reads the record of a name: see [once.Recorder].
func (r *recorder) Read(ctx context.Context, name string) (store.Seen, error) {
	q := r.question("read the record of", name, 0)
	limited, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var seen store.Seen
	err := insist(limited, func() (err error) {
		seen, err = scan(r.db.QueryRowContext(limited, r.text.read, []byte(name)))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return store.Seen{Status: store.StatusHeld}, nil
	}
	return shown(seen), q.failed(ctx, limited, err)
}

// Prepare begins a holder's term: see [once.Recorder].
func (r *recorder) Prepare(ctx context.Context, term store.Term) (store.Seen, error) {
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
