package idempotent_test

import (
	"context"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
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
		requireProblem(t, a, http.StatusConflict, httpmw.TypeBusy)
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
		for range 1 + httpmw.DefaultMaxWaiters {
			all.Go(func() { assert.Equal(t, http.StatusOK, answered(h, same()).Code) })
		}
		synctest.Wait()
		requireProblem(t, do(h, same()), http.StatusServiceUnavailable, httpmw.TypeBusy)
		close(finish)
		all.Wait()
	})
}

// A client that is slow to send its body is answered, and its
// connection closed or its stream ended.
func TestASlowBodyIsRefused(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			h := idempotent.Middleware(k, byName("ann"),
				idempotent.BodyTimeout(100*time.Millisecond))(never(t))
			s := serve(t, h, edit, uncomplaining(t))
			body, more := io.Pipe()
			go func() { _, _ = more.Write([]byte("x")) }()
			a := send(t, s, http.MethodPost, "/", body, idempotent.KeyHeader, "k")
			requireProblem(t, a, http.StatusRequestTimeout, httpmw.TypeTimeout)
			assert.Equal(t, proto == "HTTP/1.1", a.Close)
			require.NoError(t, more.Close())
			assert.Empty(t, names(store))
		})
	}
}
