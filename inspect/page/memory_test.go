package page_test

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/inspect/page"
	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// A page on a store of its own shows a lease, and ends its operation.
func TestBreakTellsTheHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locks := memory.New()
		k := webtest.Keeper(t, locks)
		p, err := page.New(locks, page.Config{BreakAs: alice})
		require.NoError(t, err)
		defer p.Close()
		lease, err := k.Acquire(t.Context(), renewer.Request{Name: "order:42", Operation: "charge"})
		require.NoError(t, err)
		waits := make(chan error, 1)
		go func() {
			next, err := k.Acquire(t.Context(), renewer.Request{
				Name: "order:42", MaxWait: time.Hour,
			})
			if err == nil {
				err = next.Release(t.Context())
			}
			waits <- err
		}()
		<-time.After(time.Minute)
		shown := webtest.Do(p, get(lockPath("order:42"))).Text
		assert.Contains(t, shown, "<bdi>charge</bdi>")
		assert.Contains(t, shown, "1 min 00 s")

		fence := strconv.FormatInt(lease.Fence(), 10)
		r := fillIn(t, p, "/break?name=order:42&fence="+fence, url.Values{"why": {"hangs"}})
		a := webtest.Do(p, r)
		require.Equal(t, http.StatusSeeOther, a.StatusCode, a.Text)
		<-lease.Context().Done()
		cause := context.Cause(lease.Context())
		require.ErrorIs(t, cause, renewer.ErrLost)
		require.ErrorContains(t, cause, "alice")
		require.ErrorContains(t, cause, "hangs")
		after := webtest.Do(p, get("/"+a.Header.Get("Location"))).Text
		assert.Contains(t, after, "broken by alice: hangs")
		assert.Contains(t, after, "</code> is broken: its process is told")
		_ = lease.Release(t.Context())
		require.NoError(t, <-waits)
		<-time.After(2 * time.Second)
		assert.Contains(t, webtest.Do(p, get("/"+a.Header.Get("Location"))).Text, "</code> has ended.")
	})
}
