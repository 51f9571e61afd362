package idempotent_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// The lock was lost, and another request with the key took over. The first
// one's transaction is rolled back, and so its answer is not true, whatever
// became of the other one.
func TestAnOvertakenTransaction(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct {
		code    int
		body    string
		charges []string
	}{
		http.StatusCreated:             {http.StatusCreated, "second", []string{"second"}},
		http.StatusInternalServerError: {http.StatusServiceUnavailable, "Lock lost", nil},
	} {
		inLedger(t, func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger) {
			var h http.Handler
			runs := 0
			h = idempotent.Middleware(k, idempotent.Config{Caller: byUser, Recorder: l})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				runs++
				switch runs {
				case 1:
					s.Delete(names(s)[0])
					<-r.Context().Done()
					second := answered(h, order(context.WithoutCancel(t.Context()), "k", "pen"))
					assert.Equal(t, status, second.Code)
					charge(r.Context(), "first")
					_, _ = io.WriteString(w, "first")
				case 2:
					charge(r.Context(), "second")
					w.WriteHeader(status)
					_, _ = io.WriteString(w, "second")
				default:
					charge(r.Context(), "third")
				}
			}))
			w := answered(h, order(t.Context(), "k", "pen"))
			assert.Equal(t, want.code, w.Code)
			assert.Contains(t, w.Body.String(), want.body)
			assert.Equal(t, want.charges, l.charges)
			assert.Equal(t, 2, runs)
			if len(want.charges) == 0 {
				assert.NotEmpty(t, w.Header().Get("Retry-After"))
				answered(h, order(t.Context(), "k", "pen"))
				assert.Equal(t, []string{"third"}, l.charges)
			}
		})
	}
}

// A client that can't be told whether it was charged asks again, and learns it.
func TestACommitThatIsNotKnown(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper, l *ledger) {
		l.unheard = true
		h := idempotent.Middleware(k, idempotent.Config{Caller: byUser, Recorder: l})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			l.store.Default(script.Prepare, script.Fail(errDown))
			charging(w, r)
		}))
		w := answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, http.StatusServiceUnavailable, w.Code)
		assert.Contains(t, w.Body.String(), "#unknown")
		assert.Contains(t, w.Body.String(), "It is not known whether what the request did is on record")
		assert.NotEmpty(t, w.Header().Get("Retry-After"))
		w = answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, http.StatusCreated, w.Code)
		assert.Equal(t, []string{"pen"}, l.charges)
	})
}
