package idempotent_test

import (
	"context"
	"net/http"
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
