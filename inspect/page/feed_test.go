package page_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/inspect/page"
	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// A request for a new lock once waited for one that looked at another, which
// waited for the first.
func TestManyNamesAtOnce(t *testing.T) {
	t.Parallel()
	p, err := page.New(&fake{}, page.Config{})
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 250 {
					webtest.Do(p, get(lockPath(fmt.Sprint(i, "-", j))))
				}
			})
		}
		all.Wait()
		p.Close()
	}()
	select {
	case <-done:
	case <-time.After(webtest.Soon):
		require.Fail(t, "requests wait for each other")
	}
}

func TestNothingIsKeptOfALockThatNoneLooksAt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p := newPage(t, f, page.Config{BreakAs: alice})
		for i := range 100 {
			webtest.Do(p, get(lockPath(fmt.Sprint(i))))
		}
		l := lookAt(t, p, "/events?name=looked+at", nil)
		webtest.Do(p, get("/"))
		synctest.Wait()
		assert.Equal(t, 102, p.Kept(), "for who reloads")
		webtest.Do(p, httptest.NewRequest(http.MethodHead, "/events?name=none", http.NoBody))
		assert.Equal(t, 102, p.Kept())
		<-time.After(time.Second)
		synctest.Wait()
		assert.Equal(t, 1, p.Kept())
		l.leave()
		<-time.After(time.Second)
		synctest.Wait()
		assert.Zero(t, p.Kept())
	})
}

func TestNothingIsKeptOfANameThatNoLockHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{locks: []store.Lock{held("a", 7, 0)}}
		p := newPage(t, f, page.Config{BreakAs: alice})
		post := fillIn(t, p, "/break?name=a&fence=7", map[string][]string{"why": {"hangs"}})
		<-time.After(time.Second)
		synctest.Wait()
		long := "name=" + strings.Repeat("n", 1<<20) + "&fence=7"
		post.URL.RawQuery = long
		for _, r := range []*http.Request{
			get("/lock?" + long), get("/events?" + long), get("/break?" + long), post,
			get("/events?name="),
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			a := webtest.Do(p, r.WithContext(ctx))
			cancel()
			assert.Equal(t, http.StatusBadRequest, a.StatusCode, r.URL.Path)
			assert.Contains(t, a.Text, "No lock can have this name.")
			assert.Less(t, len(a.Text), 4096)
			assert.Zero(t, p.Kept(), r.URL.Path)
		}
		assert.Empty(t, broke(f))
	})
}

// A store that did not answer for some seconds is asked again after as long,
// and not after four times as long, as one is that is slow.
func TestAStoreThatIsBackIsSeenSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const away = 2 * time.Second
		f := &fake{locks: []store.Lock{held("a", 7, 0)}, takes: away, err: renewer.ErrUnavailable}
		l := lookAt(t, newPage(t, f, page.Config{}), "/events", nil)
		<-time.After(away)
		synctest.Wait()
		require.Contains(t, strings.Join(l.events(), "\n"), "fault")
		f.change(func() { f.takes, f.err = 0, nil })
		<-time.After(away)
		synctest.Wait()
		assert.Contains(t, strings.Join(l.events(), "\n"), `"a"`)
		l.leave()
	})
}
