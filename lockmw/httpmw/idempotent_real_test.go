package httpmw_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Fifty equal requests race through two servers on one Redis.
func TestEqualRequestsOnTwoServers(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	var shop shop
	var servers []*httptest.Server
	for range 2 {
		s := httptest.NewServer(httpmw.Idempotent(onRedis(t, redis), byUser,
			httpmw.WaitForAnswer(soon))(&shop))
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
			r.Header.Set(httpmw.IdempotencyKeyHeader, "8e03978e-40d5-43dd-bc93-6894a57f9324")
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
			if res.Header.Get(httpmw.ReplayedHeader) == "true" {
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

func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{
		"", "k", `"k"`, `"a\"b"`, `"a\\"`, `"`, `"a"b`, " k ", "\x00",
		strings.Repeat("k", 256),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := httpmw.ParseKey(text)
		if err != nil {
			require.ErrorIs(t, err, httpmw.ErrIdempotencyKey)
			require.Empty(t, key)
			return
		}
		require.NotEmpty(t, key)
		require.LessOrEqual(t, len(key), 255)
		again, err := httpmw.ParseKey(`"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) +
			`"`)
		require.NoError(t, err)
		require.Equal(t, key, again, "quoted or not, it is one key")
	})
}

// A client that does not know whether its order came through sends it again.
func ExampleIdempotent() {
	keeper, stop := start()
	defer stop()
	orders := 0
	handler := httpmw.Idempotent(keeper, httpmw.Header("User"),
		httpmw.Scope("shop"))(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		orders++
		w.WriteHeader(http.StatusCreated)
	}))
	for _, body := range []string{"one pen", "one pen", "two pens"} {
		r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(body))
		r.Header.Set("User", "ann")
		r.Header.Set("Idempotency-Key", "8e03978e")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("Idempotent-Replayed") == "true", "orders:", orders)
	}
	// Output:
	// 201 false orders: 1
	// 201 true orders: 1
	// 422 false orders: 1
}
