package idempotent_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Fifty equal requests race through two servers on one Redis.
func TestEqualRequestsOnTwoServers(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	var shop shop
	var servers []*httptest.Server
	for range 2 {
		s := httptest.NewServer(idempotent.Middleware(onRedis(t, redis), byUser,
			idempotent.WaitForAnswer(soon))(&shop))
		t.Cleanup(s.Close)
		servers = append(servers, s)
	}
	var mu sync.Mutex
	answers, replayed := map[string]int{}, 0
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				servers[i%2].URL+"/orders", strings.NewReader("pen"))
			assert.NoError(t, err)
			r.Host = "shop.example" // by whichever address
			r.Header.Set("User", "ann")
			r.Header.Set(idempotent.KeyHeader, "8e03978e-40d5-43dd-bc93-6894a57f9324")
			res, err := http.DefaultClient.Do(r)
			if !assert.NoError(t, err) {
				return
			}
			body, err := io.ReadAll(res.Body)
			assert.NoError(t, err)
			assert.NoError(t, res.Body.Close())
			mu.Lock()
			defer mu.Unlock()
			answers[res.Status+" "+res.Header.Get("Content-Type")+" "+string(body)]++
			if res.Header.Get(idempotent.ReplayedHeader) == "true" {
				replayed++
			}
		})
	}
	wg.Wait()
	http.DefaultClient.CloseIdleConnections()
	assert.Equal(t, map[string]int{"201 Created text/plain; charset=utf-8 order 1: pen": 50},
		answers)
	assert.Equal(t, 49, replayed)
	assert.EqualValues(t, 1, shop.taken.Load())
}

// onRedis returns a keeper of one node, on a connection of its own. Its TTL is so long that no
// heartbeat is due.
func onRedis(t *testing.T, server *redistest.Server) *renewer.Keeper {
	t.Helper()
	const ttl = time.Minute
	option, err := redisstore.ClientOption(server.ClientOption(), ttl)
	require.NoError(t, err)
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	store, err := redisstore.New(client)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return newKeeper(t, store, func(c *renewer.Config) { c.TTL = ttl })
}
