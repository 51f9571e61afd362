package main

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// routes are what a server answers to. Everything about locks is said here:
// both ways to take money from an account exclude each other, on all servers,
// since they have the same key.
func routes(k *renewer.Keeper, l *ledger.Ledger) http.Handler {
	account, strict := httpmw.PathValue("account", "id"), lockmw.Strict()
	inLine := httpmw.Middleware(k, account, lockmw.Wait(5*time.Second), strict)
	orNever := httpmw.Middleware(k, account, lockmw.Refuse(), strict)
	b := bank{l}

	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/transfer", inLine(http.HandlerFunc(b.transfer)))
	mux.Handle("POST /accounts/{id}/withdraw", orNever(http.HandlerFunc(b.withdraw)))
	// the same handler, to see what the lock is for
	mux.HandleFunc("POST /unlocked/accounts/{id}/transfer", b.transfer)
	return mux
}

// newServer bounds slow clients. In production give the keeper a MaxHold, too,
// for handlers that hang: see the docs of httpmw.
func newServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: time.Minute,
		WriteTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
	}
}

// bank has the handlers. They know nothing of locks.
type bank struct{ ledger *ledger.Ledger }

func (b bank) transfer(w http.ResponseWriter, r *http.Request) {
	var o ledger.Order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	b.carryOut(w, r, o)
}

func (b bank) withdraw(w http.ResponseWriter, r *http.Request) {
	b.carryOut(w, r, ledger.Order{To: "cash", Amount: 20})
}

func (b bank) carryOut(w http.ResponseWriter, r *http.Request, o ledger.Order) {
	o.From = r.PathValue("id")
	left, err := b.ledger.Transfer(r.Context(), o)
	switch {
	case err == nil:
		w.Header().Set("Content-Type", "application/json")
		// a client that has gone needs none
		_ = json.NewEncoder(w).Encode(map[string]any{"account": o.From, "balance": left})
	case r.Context().Err() == nil:
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	default: // the client has gone, or the lock is lost and httpmw answers
	}
}
