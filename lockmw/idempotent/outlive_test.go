package idempotent_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// bank charges a card, and then books that on its request's context.
type bank struct{ charged, booked int }

func (b *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.charged++
	select {
	case <-r.Context().Done():
		http.Error(w, r.Context().Err().Error(), http.StatusInternalServerError)
	case <-time.After(300 * time.Millisecond):
		b.booked++
	}
}

// A client that gives up waiting, and comes again, is what the key is for: its
// leaving must not cut the handler off half-way.
func TestAClientsTimeoutDoesNotChargeTwice(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(ctx context.Context, in time.Duration) (context.Context,
		context.CancelFunc){
		"it leaves": func(ctx context.Context, in time.Duration) (context.Context,
			context.CancelFunc,
		) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(in, cancel)
			return ctx, cancel
		},
		"a deadline of other middleware": context.WithTimeout,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				var b bank
				h := idempotent.Middleware(k, idempotent.Config{Caller: byUser})(&b)
				ctx, cancel := give(t.Context(), 100*time.Millisecond)
				defer cancel()
				answered(h, order(ctx, "k", "pen"))
				w := answered(h, order(t.Context(), "k", "pen"))
				assert.Equal(t, http.StatusOK, w.Code)
				assert.Equal(t, "true", w.Header().Get("Idempotent-Replayed"))
				assert.Equal(t, bank{charged: 1, booked: 1}, b)
			})
		})
	}
}

// A handler that does not come to an end has one set, which begins when the
// client has gone, and not before.
func TestFinishWithin(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		given idempotent.Config
		want  time.Duration
	}{
		"default":         {idempotent.Config{}, time.Minute},
		"longer":          {idempotent.Config{FinishWithin: time.Hour}, time.Hour},
		"with its client": {idempotent.Config{EndWithClient: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				var left time.Time
				var ends func()
				runs := 0
				c.given.Caller = byUser
				h := idempotent.Middleware(k, c.given)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					runs++
					waitFor(2 * time.Hour)
					assert.NoError(t, r.Context().Err(), "for a client that is there it goes on")
					ends()
					left = time.Now()
					<-r.Context().Done()
					assert.Equal(t, c.want, time.Since(left))
					assert.ErrorIs(t, r.Context().Err(), context.Canceled)
					assert.ErrorContains(t, context.Cause(r.Context()), "FinishWithin")
				}))
				gone, leave := context.WithCancel(t.Context())
				ends = leave
				unheard := answered(h, order(gone, "k", "pen"))
				assert.Contains(t, unheard.Body.String(), "Some of it may have been done")

				late, cancel := context.WithDeadline(t.Context(),
					time.Now().Add(2*time.Hour+time.Second))
				defer cancel()
				ends = func() { <-late.Done() }
				w := answered(h, order(late, "k", "pen"))
				assert.Equal(t, http.StatusServiceUnavailable, w.Code)
				assert.Contains(t, w.Body.String(), "#timeout")
				assert.Contains(t, w.Body.String(), "Some of it may have been done")
				assert.Equal(t, 2, runs)
			})
		})
	}
}
