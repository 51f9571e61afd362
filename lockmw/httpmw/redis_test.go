package httpmw_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// onRedis returns a keeper of one node, on a connection of its own.
func onRedis(t *testing.T, server *redistest.Server) *renewer.Keeper {
	t.Helper()
	option, err := redisstore.ClientOption(server.ClientOption(), renewer.DefaultTTL)
	require.NoError(t, err)
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	store, err := redisstore.New(client)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return newKeeper(t, store)
}

// Two servers, one Redis: of the requests for an account one runs at
// a time, each runs once, and no lease is left.
func TestRequestsOfOneAccountRunAlone(t *testing.T) {
	t.Parallel()
	const accounts, requests = 3, 40
	redis := redistest.Start(t)
	var running, runs [accounts]atomic.Int64
	var overlaps atomic.Int64
	var servers []*httptest.Server
	for range 2 {
		mux := http.NewServeMux()
		mux.Handle("POST /accounts/{id}",
			httpmw.Exclusive(onRedis(t, redis), byPath,
				httpmw.Wait(soon))(http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					id, err := strconv.Atoi(r.PathValue("id"))
					assert.NoError(t, err)
					if running[id].Add(1) > 1 {
						overlaps.Add(1)
					}
					runs[id].Add(1)
					running[id].Add(-1)
					ok(w, r)
				})))
		servers = append(servers, serve(t, mux))
	}
	var all sync.WaitGroup
	for i := range requests {
		for id := range accounts {
			all.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
					servers[i%2].URL+"/accounts/"+strconv.Itoa(id), http.NoBody)
				if !assert.NoError(t, err) {
					return
				}
				res, err := servers[i%2].Client().Do(req)
				if assert.NoError(t, err) {
					defer func() { _ = res.Body.Close() }()
					assert.Equal(t, "done", read(res).body)
				}
			})
		}
	}
	all.Wait()
	assert.Zero(t, overlaps.Load())
	for id := range accounts {
		assert.EqualValues(t, requests, runs[id].Load())
		n, err := redis.Do("EXISTS", "lockbeat:{account:"+strconv.Itoa(id)+"}").AsInt64()
		require.NoError(t, err)
		assert.Zero(t, n)
	}
}

func TestStoreDownIsNeverBusy(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := serve(t, httpmw.Exclusive(onRedis(t, redis), byName(secret),
		httpmw.Refuse(http.StatusConflict))(http.HandlerFunc(ok)))
	assert.Equal(t, "done", send(t, s, http.MethodGet, "/", http.NoBody).body)
	redis.Kill()
	a := send(t, s, http.MethodGet, "/", http.NoBody)
	requireProblem(t, a, http.StatusServiceUnavailable, httpguard.TypeUnavailable)
	requireRetryAfter(t, a, 3, 8)
	assert.NotContains(t, a.body, "usy")
	require.NoError(t, redis.Restart())
	require.Eventually(t, func() bool {
		return send(t, s, http.MethodGet, "/", http.NoBody).body == "done"
	}, soon, tick)
}
