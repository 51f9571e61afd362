package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/lockmw/once/sqlrecord"
	"github.com/lockbeat/lockbeat/renewer"
)

// routes are what a server answers to. An order is charged in one transaction with the answer to
// the request that charges it.
func routes(k *renewer.Keeper, db *sql.DB, b bank) (http.Handler, error) {
	recorder, err := sqlrecord.New(db, sqlrecord.SQLite)
	if err != nil {
		return nil, err
	}
	guard := idempotent.Middleware(k, customer, idempotent.RecordIn(recorder))
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}/charge", guard(http.HandlerFunc(b.inTransaction)))
	mux.Handle("POST /apart/orders/{id}/charge", b.apart(k, db))
	return mux, nil
}

func customer(r *http.Request) (string, error) { return r.Header.Get("Customer"), nil }

// bank has the handlers.
type bank struct {
	// work is what else there is to do for a charge.
	work func()
}

// inTransaction charges an order. It neither commits nor looks whether this was done before.
func (b bank) inTransaction(w http.ResponseWriter, r *http.Request) {
	b.charge(w, r, sqlrecord.Tx(r.Context()))
}

// apart is what the transaction is for: the charge is in the database, and the answer in Redis.
func (b bank) apart(k *renewer.Keeper, db *sql.DB) http.Handler {
	guard := idempotent.Middleware(k, customer)
	return guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.charge(w, r, db)
	}))
}

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (b bank) charge(w http.ResponseWriter, r *http.Request, in querier) {
	var receipt int64
	err := in.QueryRowContext(r.Context(),
		"INSERT INTO charges (order_id, amount) VALUES ($1, 20) RETURNING receipt",
		r.PathValue("id")).Scan(&receipt)
	if err != nil {
		http.Error(w, "the database can't be asked", http.StatusServiceUnavailable)
		return
	}
	b.work()
	w.WriteHeader(http.StatusCreated)
	_, _ = fmt.Fprintf(w, "receipt %d", receipt) // a client that has gone comes again
}

// migrate makes the tables. Nothing in them keeps an order from being charged twice.
func migrate(ctx context.Context, db *sql.DB) error {
	recorder, err := sqlrecord.New(db, sqlrecord.SQLite)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, recorder.Schema()+`
		CREATE TABLE IF NOT EXISTS charges (
			receipt  INTEGER PRIMARY KEY,
			order_id TEXT    NOT NULL,
			amount   INTEGER NOT NULL
		);`)
	return err
}

// open opens the database in a file. Writers wait for each other.
func open(file string) (*sql.DB, error) {
	return sql.Open("sqlite",
		"file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
}

// newServer bounds slow clients.
func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute,
		WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
	}
}
