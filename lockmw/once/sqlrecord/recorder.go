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

// dialect is which SQL a database speaks.
type dialect bool

const (
	postgreSQL dialect = false
	sqlite     dialect = true
)

// In a statement, TABLE is the table, NOW is the database's clock in ms since
// 1970, and $1, $2, … are the arguments.
const (
	schema = `CREATE TABLE IF NOT EXISTS TABLE (
	name  BYTES  NOT NULL PRIMARY KEY, -- the lock's, as bytes
	term  BIGINT NOT NULL,             -- the highest fencing token that has begun
	fence BIGINT NOT NULL,             -- the token of who wrote the record; 0: none has
	seq   BIGINT NOT NULL,             -- its number among those of this token
	data  BYTES  NOT NULL,             -- the record
	ends  BIGINT NOT NULL              -- when it lapses, ms since 1970
);
CREATE INDEX IF NOT EXISTS INDEX_ends ON TABLE (ends);
`

	readText = `SELECT fence, seq, data, ends - NOW FROM TABLE WHERE name = $1 AND ends > NOW`

	// It locks the row: a transaction that has written the record is waited
	// for.
	prepareText = `INSERT INTO TABLE AS r (name, term, fence, seq, data, ends)
VALUES ($1, $2, 0, 0, $4, NOW + $3)
ON CONFLICT (name) DO UPDATE SET term = excluded.term WHERE r.term <= excluded.term
RETURNING fence, seq, data, ends - NOW`

	dropText = `DELETE FROM TABLE WHERE name = $1 AND ends <= NOW`

	// A record of this token is replaced only by a later one, or by itself.
	writeText = `UPDATE TABLE SET fence = $2, seq = $3, data = $4, ends = NOW + $5
WHERE name = $1 AND term = $2 AND (fence < $2 OR seq < $3 OR seq = $3 AND data = $4)`

	eraseText = `DELETE FROM TABLE WHERE name = $1 AND term = $2 AND (fence < $2 OR seq < $3)`

	// whyText says why a write has changed no row.
	whyText = `SELECT term FROM TABLE WHERE name = $1`

	// claimText makes a transaction SQLite's writer.
	claimText = `UPDATE TABLE SET term = term WHERE 1 = 0`

	lapsedText = `DELETE FROM TABLE WHERE ends <= NOW`
)

// statements are the texts above for one database and table.
type statements struct {
	schema, read, prepare, drop, write, erase, why, claim, lapsed string
}

func newStatements(d dialect, table string) statements {
	index := table[strings.LastIndexByte(table, '.')+1:]
	words := []string{
		"TABLE IF", "TABLE IF", "INDEX_", index + "_", "TABLE", table,
		"BYTES ", "BYTEA ", "NOW", "(extract(epoch FROM statement_timestamp()) * 1000)::bigint",
	}
	if d == sqlite {
		words = []string{
			"TABLE IF", "TABLE IF", "INDEX_", index + "_", "TABLE", table,
			"BYTES ", "BLOB  ", "NOW", "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
			"$", "?",
		}
	}
	text := strings.NewReplacer(words...).Replace
	return statements{
		schema: text(schema), read: text(readText), prepare: text(prepareText),
		drop: text(dropText), write: text(writeText), erase: text(eraseText), why: text(whyText),
		claim: text(claimText), lapsed: text(lapsedText),
	}
}
