package rivermw

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// Pool asks a PostgreSQL database: a *pgxpool.Pool, or a *sql.DB in a type
// whose QueryRow is its QueryRowContext. It may be called concurrently.
type Pool[R Row] interface {
	QueryRow(ctx context.Context, query string, args ...any) R
}

// Row is the answer of a [Pool]: pgx.Row or *sql.Row.
type Row interface {
	Scan(into ...any) error
}

// InLine has jobs stand in line for their lock: see [jobs.InLine].
//
// pool is on the database of River's client, with its search_path and rights;
// it may be the client's own. schema is the client's river.Config.Schema, if it
// has one. If the jobs are not there, the keeper's observer is told with the
// first, and they do not stand in line. It panics if pool is nil.
func InLine[R Row](pool Pool[R], schema ...string) jobs.Option {
	if v := reflect.ValueOf(pool); pool == nil || v.Kind() == reflect.Pointer && v.IsNil() {
		panic("lockbeat: rivermw.InLine needs a pool on River's database, such as a *pgxpool.Pool")
	}
	table, of := "river_job", strings.Join(schema, ".")
	if of != "" {
		table = strconv.Quote(of) + "." + table // River takes letters, digits and _
	}
	return jobs.InLine(&database{
		schema: of,
		ask: func(ctx context.Context, query string, args []any, into ...any) error {
			query = strings.ReplaceAll(query, "river_job", table)
			return pool.QueryRow(ctx, query, args...).Scan(into...)
		},
	})
}

var (
	errOtherDatabase = fmt.Errorf("%w: the database of rivermw.InLine does not have the job that "+
		"this client runs: give it a pool on the client's own database, and its Config.Schema",
		renewer.ErrConfig)
	errNotWaiting = errors.New("the job does not wait any more")
)

const (
	// askTimeout bounds one statement.
	askTimeout = 5 * time.Second
	// backBy is by when River has put back a job in line that it has fetched,
	// also if middleware is slow: so that where many jobs died with their
	// client, the others do not wait a second for each. One that takes longer
	// loses its rank.
	backBy = "10 s"
)

// database is where River has its jobs. It may be used concurrently.
type database struct {
	schema string // of the client; "": that of the search_path
	// ask gets one row, of a query that calls the table river_job.
	ask func(ctx context.Context, query string, args []any, into ...any) error
}

var _ jobs.Queue = (*database)(nil)

// Home implements [jobs.Queue]: what tells one table of jobs from all others. A
// copy of a whole server's files has the same; then jobs of the two may miss
// their calls, and come by themselves.
func (d *database) Home(ctx context.Context, running jobs.Task) (home string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	err = d.ask(ctx, `
		SELECT coalesce(max(encode(sha256(convert_to(
			concat_ws('/', system_identifier, current_database(), tableoid), 'UTF8')), 'hex')), '')
		FROM (SELECT tableoid FROM river_job WHERE id = $1 AND state = 'running') AS job,
			pg_control_system()`,
		[]any{idOf(running)}, &home)
	switch {
	case err != nil:
		err = fmt.Errorf("find River's jobs by the pool of rivermw.InLine: it needs the client's "+
			"own database, search_path and role, and its Config.Schema: %w", err)
	case home == "":
		err = errOtherDatabase
	}
	return home, err
}

// State implements [jobs.Queue]. River is about to put back a job that runs,
// unless its client has died: then it runs in the table until it is rescued, an
// hour later. One that River retries after an error, or that was snoozed by its
// own worker, is left to River.
func (d *database) State(mark string, job jobs.Task) (state jobs.State, err error) {
	if idOf(job) == 0 {
		return jobs.StateGone, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	var name string
	err = d.ask(ctx, `
		SELECT coalesce(max(CASE
			WHEN state = 'running' AND attempted_at > now() - interval '`+backBy+`' THEN 'running'
			WHEN state = 'available' AND scheduled_at <= now() THEN 'coming'
			WHEN state IN ('available', 'scheduled') AND metadata->>'`+markKey+`' = $3
			THEN 'waiting' END), '')
		FROM river_job WHERE id = $1 AND queue = $2`,
		[]any{idOf(job), queueIn(job), mark}, &name)
	switch name {
	case "running":
		state = jobs.StateRunning
	case "coming":
		state = jobs.StateComing
	case "waiting":
		state = jobs.StateWaiting
	default:
		state = jobs.StateGone
	}
	return state, err
}

// Run implements [jobs.Queue]. A job is due since it was made, by which it is
// ahead of those that came later. The notification is what River sends for a
// new one. River's own JobRetry would send none, and gives a job that has
// failed another attempt.
func (d *database) Run(job jobs.Task) error {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	var woken int
	err := d.ask(ctx, `
		WITH woken AS (
			UPDATE river_job SET state = 'available', scheduled_at = created_at
			WHERE id = $1 AND queue = $2
				AND (state = 'scheduled' OR state = 'available' AND scheduled_at > now())
			RETURNING queue
		), told AS (
			SELECT pg_notify(coalesce(nullif($3, ''), current_schema()) || '.river_insert',
				json_build_object('queue', queue)::text) FROM woken
		)
		SELECT count(*) FROM told`,
		[]any{idOf(job), queueIn(job), d.schema}, &woken)
	if err == nil && woken == 0 {
		err = errNotWaiting
	}
	return err
}

// idOf is River's number of a job. The line is read from the locks' server,
// where others may have written into it: what is no number, or of no queue that
// PostgreSQL can have, is no job's.
func idOf(job jobs.Task) int64 {
	id, err := strconv.ParseInt(job.ID, 10, 64)
	if err != nil || !utf8.ValidString(job.Queue) || strings.Contains(job.Queue, "\x00") {
		return 0
	}
	return id
}

// queueIn is River's name of a job's queue: see [queueOf].
func queueIn(job jobs.Task) string {
	_, queue, _ := strings.Cut(job.Queue, " ")
	return queue
}
