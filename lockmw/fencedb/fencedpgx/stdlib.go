package fencedpgx

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jackc/pgx/v5"

	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
)

// Connector is fencedb.Connector for that of package stdlib (GetConnector,
// GetPoolConnector), whose transactions then begin in one round trip.
func Connector(c driver.Connector, opts ...fencedb.Option) driver.Connector {
	return fencedb.Connector(c, fencedb.PostgreSQL,
		append([]fencedb.Option{func(g *fence.Guard) { g.Begin = beginStdlib }}, opts...)...)
}

// levels are stdlib's.
var levels = map[sql.IsolationLevel]pgx.TxIsoLevel{
	sql.LevelDefault:         "",
	sql.LevelReadUncommitted: pgx.ReadUncommitted,
	sql.LevelReadCommitted:   pgx.ReadCommitted,
	sql.LevelRepeatableRead:  pgx.RepeatableRead,
	sql.LevelSnapshot:        pgx.RepeatableRead,
	sql.LevelSerializable:    pgx.Serializable,
}

func beginStdlib(
	ctx context.Context, c driver.Conn, o driver.TxOptions, f *fence.Fence,
) (driver.Tx, bool, error) {
	inner, ok := c.(interface{ Conn() *pgx.Conn })
	level, known := levels[sql.IsolationLevel(o.Isolation)]
	if !ok || !known {
		return nil, false, nil
	}
	conn := inner.Conn()
	if conn.IsClosed() {
		return nil, true, driver.ErrBadConn
	}
	t, err := begin(ctx, conn, pgx.TxOptions{IsoLevel: level}, f)
	if err != nil {
		return nil, true, err
	}
	return tx{ctx, t}, true, nil
}

// tx is a transaction as stdlib has it.
type tx struct {
	ctx context.Context
	pgx pgx.Tx
}

func (t tx) Commit() error   { return t.pgx.Commit(t.ctx) }
func (t tx) Rollback() error { return t.pgx.Rollback(t.ctx) }
