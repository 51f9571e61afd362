package idempotent_test

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// One caller's requests at once are bounded. One more is told so, and not that its key is in
// flight.
func TestACallerHasSoManyRequestsAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		finish := make(chan struct{})
		var told error
		h := idempotent.Middleware(k, byUser, idempotent.MaxRunningPerCaller(2),
			idempotent.RetryAfter(time.Minute),
			idempotent.OnError(func(w http.ResponseWriter, r *http.Request, err error) {
				told = err
				httpmw.Respond(w, r, err)
			}))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-finish
			ok(w, r)
		}))
		var all sync.WaitGroup
		for _, key := range []string{"a", "b"} {
			all.Go(func() { answered(h, order(t.Context(), key, "pen")) })
		}
		waitFor(time.Second)
		begun := time.Now()
		w := answered(h, order(t.Context(), "c", "pen"))
		p := requireProblem(t, asReply(w), http.StatusTooManyRequests, httpmw.TypeTooMany)
		assert.Contains(t, p.Detail, "has not been carried out")
		assert.NotContains(t, w.Body.String(), "ann")
		wait, err := strconv.Atoi(w.Header().Get("Retry-After"))
		require.NoError(t, err)
		assert.InDelta(t, 60, wait, 30)
		require.ErrorIs(t, told, idempotent.ErrTooMany)
		assert.Equal(t, http.StatusConflict, answered(h, order(t.Context(), "a", "pen")).Code,
			"a key in flight is another refusal")
		assert.Zero(t, time.Since(begun), "at once")

		close(finish)
		all.Wait()
		assert.Equal(t, http.StatusOK, answered(h, order(t.Context(), "c", "pen")).Code)
	})
}

// By HTTP/2 a client that sent requests and closed its connection, over and over, had any number of
// handlers running with no connection open.
func TestRequestsThatOutliveTheirConnectionAreBounded(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	finish := make(chan struct{})
	var running atomic.Int64
	s := serve(t, idempotent.Middleware(k, byUser)(http.HandlerFunc(
		func(http.ResponseWriter, *http.Request) {
			running.Add(1)
			<-finish
		})), protocols["HTTP/2"], quiet)
	defer close(finish)
	var answered atomic.Int64
	for round := range 4 {
		client := s.Client()
		transport := client.Transport.(*http.Transport).Clone()
		client = &http.Client{Transport: transport}
		ctx, leave := context.WithCancel(t.Context())
		var sent sync.WaitGroup
		for i := range 40 {
			sent.Go(func() {
				r := order(ctx, strconv.Itoa(round*40+i), "pen")
				out, err := http.NewRequestWithContext(ctx, r.Method, s.URL, r.Body)
				assert.NoError(t, err)
				out.Header = r.Header
				res, err := client.Do(out)
				if err == nil {
					answered.Add(1)
					assert.NoError(t, res.Body.Close())
				}
			})
		}
		require.Eventually(t, func() bool {
			return running.Load()+answered.Load() == int64(round+1)*40
		}, soon, time.Millisecond)
		leave()
		sent.Wait()
		transport.CloseIdleConnections()
	}
	assert.EqualValues(t, idempotent.DefaultMaxRunningPerCaller, running.Load())
}
