package idempotent_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// counting is a writer that counts what has come through.
type counting struct {
	header http.Header
	status int
	bytes  int
}

func (c *counting) Header() http.Header    { return c.header }
func (c *counting) WriteHeader(status int) { c.status = status }

func (c *counting) Write(p []byte) (int, error) {
	c.bytes += len(p)
	return len(p), nil
}

// An answer too large to be stored is sent on while it is written, rather than
// kept in memory for nothing.
func TestALargeAnswerIsNotKeptInMemory(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{
		"in large pieces": 1 << 20, "in small ones": 1 << 10,
		"byte by byte": 1,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				w := &counting{header: make(http.Header)}
				runs, written := 0, 0
				piece := bytes.Repeat([]byte("x"), size)
				h := idempotent.Middleware(k, idempotent.Config{Caller: byUser})(http.HandlerFunc(func(to http.ResponseWriter, _ *http.Request) {
					runs++
					to.Header().Set("X-Report", "7")
					to.WriteHeader(http.StatusCreated)
					for written < 4*maxAnswer {
						n, err := to.Write(piece)
						if !assert.NoError(t, err) {
							return
						}
						written += n
						if !assert.LessOrEqual(t, written-w.bytes, maxAnswer) {
							return
						}
					}
				}))
				h.ServeHTTP(w, order(t.Context(), "k", "pen"))
				assert.Equal(t, http.StatusCreated, w.status)
				assert.Equal(t, "7", w.header.Get("X-Report"))
				assert.Empty(t, w.header.Get("Content-Length"), "its length was not known")
				assert.Equal(t, written, w.bytes)
				again := answered(h, order(t.Context(), "k", "pen"))
				assert.Equal(t, http.StatusConflict, again.Code)
				assert.Contains(t, again.Body.String(), "#not-kept")
				assert.Equal(t, 1, runs)
			})
		})
	}
}
