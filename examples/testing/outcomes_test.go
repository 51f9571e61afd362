package shop

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// stuck goes on until its context ends, or for an hour of the bubble's.
func stuck(ctx context.Context, _ string) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Hour):
		return nil
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	down := script.Fail(errors.New("connection refused"))
	busy := script.Taken(store.Holder{Node: "web-2"}, time.Minute)
	for name, c := range map[string]struct {
		op     script.Op
		answer script.Step
		do     pay
		want   error
		status int
	}{
		"free":       {script.Acquire, script.Pass(), paid, nil, 200},
		"busy":       {script.Acquire, busy, paid, renewer.ErrBusy, 503},
		"Redis down": {script.Acquire, down, paid, renewer.ErrUnavailable, 503},
		// In these the work has begun. Its context ends before another process can have the lock,
		"Redis goes down": {script.Renew, script.Hang(), stuck, renewer.ErrLost, 503},
		// or, if the key was deleted, at the next heartbeat.
		"key deleted": {script.Renew, script.Gone(), stuck, renewer.ErrLost, 503},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				locks := script.New()
				locks.Default(c.op, c.answer)
				k := newKeeper(t, locks)

				if _, err := charge(t.Context(), k, "42", c.do); !errors.Is(err, c.want) {
					t.Error("charge:", err)
				}

				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodPost, "/orders/42", http.NoBody)
				route(k, c.do).ServeHTTP(w, r)
				if w.Code != c.status {
					t.Error("HTTP:", w.Code, w.Body)
				}

				payload := asynq.NewTask("charge", []byte(`"42"`))
				err := task(k, c.do).ProcessTask(t.Context(), payload)
				if !errors.Is(err, c.want) {
					t.Error("asynq:", err)
				}
				_, config := asynqmw.Configure(k, asynq.RedisClientOpt{}, asynq.Config{})
				failed := err != nil && config.IsFailure(err)
				if ran := c.op == script.Renew; failed != ran { // else it uses up no attempt
					t.Error("asynq counts the attempt:", failed)
				}
			})
		})
	}
}
