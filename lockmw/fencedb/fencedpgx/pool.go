package fencedpgx

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/lockbeat/lockbeat/lockmw/fencedb"
	"github.com/lockbeat/lockbeat/lockmw/internal/fence"
)

// What is embedded further down gives way to fenced's methods.
type (
	barePool     struct{ *pgxpool.Pool }
	barePoolConn struct{ *pgxpool.Conn }
	bareConn     struct{ *pgx.Conn }
)

// Pool is a pool whose transactions, and statements outside of one, carry the
// fences of the locks that their context runs under. Its field Pool is the bare
// one, which Close closes.
type Pool struct {
	fenced
	barePool
}

// New wraps a pool. It panics if pool is nil.
func New(pool *pgxpool.Pool, opts ...fencedb.Option) *Pool {
	if pool == nil {
		panic("lockbeat: fencedpgx.New needs a pool")
	}
	return &Pool{fenced{bare: pool, guard: newGuard(opts)}, barePool{pool}}
}

// PoolConn is a connection of a [Pool]. Its field Conn is the bare one.
type PoolConn struct {
	fenced
	barePoolConn
}

func newPoolConn(c *pgxpool.Conn, g *fence.Guard) *PoolConn {
	return &PoolConn{fenced{bare: c, guard: g, conn: c.Conn()}, barePoolConn{c}}
}

// Conn is pgx's own connection, which is bare.
func (c *PoolConn) Conn() *pgx.Conn { return c.barePoolConn.Conn.Conn() }

// Acquire is pgxpool's.
func (p *Pool) Acquire(ctx context.Context) (*PoolConn, error) {
	c, err := p.Pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	return newPoolConn(c, p.guard), nil
}

// AcquireFunc is pgxpool's.
func (p *Pool) AcquireFunc(ctx context.Context, f func(*PoolConn) error) error {
	return p.Pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		return f(newPoolConn(c, p.guard))
	})
}

// AcquireAllIdle is pgxpool's.
func (p *Pool) AcquireAllIdle(ctx context.Context) []*PoolConn {
	var all []*PoolConn
	for _, c := range p.Pool.AcquireAllIdle(ctx) {
		all = append(all, newPoolConn(c, p.guard))
	}
	return all
}

// Conn is a connection that is in no pool. Its field Conn is the bare one.
type Conn struct {
	fenced
	bareConn
}

// NewConn wraps a connection. It panics if c is nil.
func NewConn(c *pgx.Conn, opts ...fencedb.Option) *Conn {
	if c == nil {
		panic("lockbeat: fencedpgx.NewConn needs a connection")
	}
	return &Conn{fenced{bare: c, guard: newGuard(opts), conn: c}, bareConn{c}}
}
