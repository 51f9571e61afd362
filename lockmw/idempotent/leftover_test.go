package idempotent_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// What any client can have for the asking, such as a 404, took 250 bytes of Redis for a day: a
// client that made up keys could fill it.
func TestWhatIsNotStoredLeavesNothingInRedis(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	k := onRedis(t, redis)
	status := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(n) }
	}
	defer hold(t, k, "busy")()
	for name, h := range map[string]http.Handler{
		"404": status(404),
		"500": status(500),
		"a panic": http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}),
		"refused": httpmw.Exclusive(k, byName("busy"), httpmw.Refuse(409))(never(t)),
		"too much": httpmw.Handle(k, func(map[string]string) string { return "a" },
			func(http.ResponseWriter, *http.Request, map[string]string) {}, httpmw.MaxBody(1)),
	} {
		func() {
			defer func() { _ = recover() }()
			answered(idempotent.Middleware(k, byUser)(h),
				order(t.Context(), "k", `{"Account":"7"}`))
		}()
		keys, err := redis.Do("KEYS", "*{idempotency*").AsStrSlice()
		require.NoError(t, err)
		for _, key := range keys {
			assert.True(t, strings.HasSuffix(key, ":fence"), "%s leaves %s", name, key)
		}
	}
}
