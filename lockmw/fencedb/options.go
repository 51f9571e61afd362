package fencedb

import (
	"database/sql"
	"database/sql/driver"
	"fmt"
	"reflect"

	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
	"github.com/lockbeat/lockbeat/renewer"
)

// Dialect is a kind of database.
type Dialect = fence.Dialect

// The dialects. Package fencetx has the table of each.
const (
	PostgreSQL = fence.PostgreSQL
	MySQL      = fence.MySQL // MariaDB, too
	SQLite     = fence.SQLite
)

// Option is for [Connector], [Open] and package fencedpgx.
type Option func(*fence.Guard)

// Require refuses what may write without a lock, with lockmw.ErrNotHeld: for a
// pool that only locked code may use. A slot of a limit is no lock.
// Transactions that are read-only pass, and statements that surely write
// nothing.
func Require() Option { return func(g *fence.Guard) { g.Require = true } }

// Only says which locks count for this database: those for whose name counts
// returns true. Without it all do. Use it where one name is taken of two
// keepers, or where a lock has nothing to do with the database.
func Only(counts func(name string) bool) Option {
	return func(g *fence.Guard) { g.Counts = counts }
}

// RefuseOutside refuses what may write under a lock and outside of a
// transaction. Without it such a statement runs in a transaction of its own.
func RefuseOutside() Option { return func(g *fence.Guard) { g.Refuse = true } }

// Connector wraps a driver's connector, for [sql.OpenDB]. A mistake in the
// arguments is told when a connection is needed.
func Connector(c driver.Connector, d Dialect, opts ...Option) driver.Connector {
	own := &connector{guard: &fence.Guard{Dialect: d}}
	for _, opt := range opts {
		opt(own.guard)
	}
	v := reflect.ValueOf(c)
	isNil := c == nil || v.Kind() == reflect.Pointer && v.IsNil()
	if !isNil {
		own.inner = c
	}
	switch {
	case isNil:
		own.err = fmt.Errorf("%w: fencedb.Connector: the driver's connector is nil",
			renewer.ErrConfig)
	case d != PostgreSQL && d != MySQL && d != SQLite:
		own.err = fmt.Errorf("%w: fencedb.Connector: the dialect is none: name "+
			"fencedb.PostgreSQL, MySQL or SQLite", renewer.ErrConfig)
	}
	return own
}

// Open is [sql.Open] with [Connector].
func Open(driverName, dsn string, d Dialect, opts ...Option) (*sql.DB, error) {
	bare, err := sql.Open(driverName, dsn)
	if err != nil {
		return nil, err
	}
	drv := bare.Driver()
	if err := bare.Close(); err != nil {
		return nil, err
	}
	var c driver.Connector = byName{drv, dsn}
	if with, ok := drv.(driver.DriverContext); ok {
		if c, err = with.OpenConnector(dsn); err != nil {
			return nil, err
		}
	}
	return sql.OpenDB(Connector(c, d, opts...)), nil
}
