package idempotent_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A request with a deadline is told that another is under way while there is time left.
func TestAWaitForAnAnswerEndsBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		h := idempotent.Middleware(k, byUser, idempotent.WaitForAnswer(time.Hour))(
			http.HandlerFunc(func(http.ResponseWriter, *http.Request) { waitFor(time.Minute) }))
		first := make(chan struct{})
		go func() { answered(h, order(t.Context(), "k", "pen")); close(first) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		a := do(h, order(ctx, "k", "pen"))
		requireProblem(t, a, http.StatusConflict, httpguard.TypeBusy)
		assert.NotEmpty(t, a.Header.Get("Retry-After"))
		assert.Equal(t, 750*time.Millisecond, time.Since(begun))
		<-first
	})
}

// Any number of requests could wait for one answer.
func TestTheLineForAnAnswerHadNoEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		finish := make(chan struct{})
		h := idempotent.Middleware(k, byUser,
			idempotent.WaitForAnswer(time.Minute))(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request,
		) {
			<-finish
			ok(w, r)
		}))
		same := func() *http.Request { return order(t.Context(), "k", "pen") }
		var all sync.WaitGroup
		for range 1 + 100 {
			all.Go(func() { assert.Equal(t, http.StatusOK, answered(h, same()).Code) })
		}
		synctest.Wait()
		requireProblem(t, do(h, same()), http.StatusServiceUnavailable, httpguard.TypeBusy)
		close(finish)
		all.Wait()
	})
}
