// Package shop has a function, a route and a task under a lock, and shows how
// to test them: see docs/testing.md.
package shop

import (
	"context"
	"net/http"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
)

type pay func(ctx context.Context, order string) error

func orderLock(id string) string { return lockmw.Key("order", id) }

func charge(ctx context.Context, k *renewer.Keeper, order string, do pay) (string, error) {
	return lockmw.Do(ctx, k, orderLock(order), func(ctx context.Context) (string, error) {
		return "receipt", do(ctx, order)
	})
}

func route(k *renewer.Keeper, do pay) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /orders/{id}", httpmw.Middleware(k, httpmw.PathValue("order", "id"))(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if do(r.Context(), r.PathValue("id")) != nil && r.Context().Err() == nil {
				http.Error(w, "not charged", http.StatusInternalServerError)
			}
		})))
	return mux
}

func task(k *renewer.Keeper, do pay) asynq.Handler {
	return asynqmw.Wrap(asynqmw.ForTest(k), orderLock, do)
}
