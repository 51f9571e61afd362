package httpmw_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// The answers to older requests say that a newer one has their place, and
// whether anything of them has been done. Nobody is asked to send them again.
func TestAnswersToRequestsThatWereReplaced(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		opts  []httpmw.Option
		write string // by the one that runs
		ran   int    // its status
		body  string // what that has in its body
	}{
		"replaced, nothing written":  {[]httpmw.Option{lockmw.Replace()}, "", 409, ""},
		"replaced, tracked":          {[]httpmw.Option{lockmw.Replace(), lockmw.Strict()}, "", 409, "may have been done"},
		"replaced, written":          {[]httpmw.Option{lockmw.Replace()}, "done", 200, "done"},
		"the newest waits":           {[]httpmw.Option{lockmw.Latest()}, "", 200, ""},
		"a refusal before it":        {[]httpmw.Option{lockmw.Refuse(), lockmw.Latest()}, "", 200, ""},
		"a wait, and no more places": {[]httpmw.Option{lockmw.Latest(), lockmw.Wait(time.Hour), lockmw.MaxWaiters(1)}, "", 200, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k := webtest.Keeper(t, memory.New())
				h := httpmw.Middleware(k, byName(secret), c.opts...)(http.HandlerFunc(
					func(w http.ResponseWriter, r *http.Request) {
						select {
						case <-r.Context().Done():
							<-time.After(time.Second)
						case <-time.After(5 * time.Second):
						}
						if c.write != "" {
							_, _ = io.WriteString(w, c.write)
						}
					}))
				asks := func() <-chan answer {
					done := make(chan answer, 1)
					go func() { done <- do(h, get(t, "/")) }()
					synctest.Wait()
					return done
				}
				begun := time.Now()
				first, second, third := asks(), asks(), asks()
				waited := <-second
				assert.Equal(t, begun, time.Now(), "at once")
				p := requireProblem(t, waited, http.StatusConflict, httpguard.TypeReplaced)
				assert.Contains(t, p.Detail, "newer request")
				assert.Contains(t, p.Detail, "has not been carried out")
				assert.Empty(t, waited.Header.Get("Retry-After"))

				ran := <-first
				assert.Equal(t, c.ran, ran.StatusCode)
				assert.Contains(t, ran.Text, c.body)
				assert.Empty(t, ran.Header.Get("Retry-After"))
				assert.Equal(t, http.StatusOK, (<-third).StatusCode)
			})
		})
	}
}
