package page_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
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

const form = "/break?name=order%3A42&fence=7"

// fillIn opens the form and returns a request that sends it back, as a browser
// does.
func fillIn(t *testing.T, p http.Handler, form string, fields url.Values) *http.Request {
	t.Helper()
	a := webtest.Do(p, get(form))
	require.Equal(t, http.StatusOK, a.StatusCode, a.Text)
	require.Len(t, a.Cookies(), 1)
	cookie := a.Cookies()[0]
	assert.True(t, cookie.HttpOnly)
	assert.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	token := regexp.MustCompile(`name="token" value="([^"]+)"`).FindStringSubmatch(a.Text)
	require.NotNil(t, token)
	fields.Set("token", token[1])
	r := httptest.NewRequest(http.MethodPost, form, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.AddCookie(cookie)
	return r
}

func broke(f *fake) []store.Breaking {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.broke
}

func TestBreak(t *testing.T) {
	t.Parallel()
	for _, force := range []bool{false, true} {
		f := &fake{
			locks:  []store.Lock{held("order:42", 7, time.Hour)},
			answer: store.Answer{Status: store.StatusHeld},
		}
		var log strings.Builder
		p := newPage(t, f, page.Config{
			BreakAs: alice, Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		fields := url.Values{"why": {" hangs "}}
		if force {
			fields.Set("force", "1")
		}
		r := fillIn(t, p, form, fields)
		require.Empty(t, broke(f), "no GET changes anything")
		a := webtest.Do(p, r)
		assert.Equal(t, http.StatusSeeOther, a.StatusCode, a.Text)
		assert.Equal(t, "lock?name=order%3A42&ended=7", a.Header.Get("Location"))
		assert.Equal(t, []store.Breaking{{
			Name: "order:42", Fence: 7,
			Broken: store.Broken{By: "alice", Why: "hangs", Force: force},
		}}, broke(f))
		assert.Contains(t, log.String(), fmt.Sprintf("level=WARN msg=\"lease broken\" "+
			"lock_hash=%s limit=false fence=7 by=alice why=hangs force=%v",
			renewer.HashName("order:42", nil), force))
		after := webtest.Do(p, get("/"+a.Header.Get("Location")))
		assert.Contains(t, after.Text, "is not broken", "the page tells what the store says")
	}
}

// A lease that is broken keeps who broke it first: a second order once said
// that it had succeeded, on the page and in its log.
func TestBreakOfWhatAnotherHasBroken(t *testing.T) {
	t.Parallel()
	f := &fake{
		locks:  []store.Lock{held("order:42", 7, time.Hour)},
		answer: store.Answer{Status: store.StatusHeld},
	}
	var log strings.Builder
	p := newPage(t, f, page.Config{BreakAs: alice, Log: slog.New(slog.NewTextHandler(&log, nil))})
	r := fillIn(t, p, form, url.Values{"why": {"mine"}})
	forced := fillIn(t, p, form, url.Values{"why": {"mine"}, "force": {"1"}})
	f.change(func() { f.locks[0].Slots[0].Broken = &store.Broken{By: "bob", Why: "<hangs>"} })
	a := webtest.Do(p, r)
	assert.Equal(t, http.StatusConflict, a.StatusCode)
	assert.Contains(t, a.Text, "It was broken by bob: &lt;hangs&gt;.")
	assert.Empty(t, broke(f))
	assert.Empty(t, log.String())
	assert.Equal(t, http.StatusSeeOther, webtest.Do(p, forced).StatusCode, "that is more")
	assert.Len(t, broke(f), 1)
}

func TestBreakOfALimit(t *testing.T) {
	t.Parallel()
	l := held("chat", 7, time.Hour)
	l.Limit = true
	f := &fake{locks: []store.Lock{l}, answer: store.Answer{Status: store.StatusHeld}}
	p := newPage(t, f, page.Config{BreakAs: alice})
	r := fillIn(t, p, "/break?name=chat&limit=1&fence=7", url.Values{"why": {"hangs"}})
	assert.Equal(t, http.StatusSeeOther, webtest.Do(p, r).StatusCode)
	assert.Equal(t, "chat", broke(f)[0].Name)
	assert.True(t, broke(f)[0].Limit)
}

func TestBreakIsRefused(t *testing.T) {
	t.Parallel()
	other := func(t *testing.T, r *http.Request) {
		t.Helper()
		r.Header.Del("Sec-Fetch-Site")
		r.Header.Set("Origin", "http://elsewhere.example")
	}
	for name, c := range map[string]struct {
		as     func(*http.Request) string // in place of alice, once the form is open
		spoil  func(*testing.T, *http.Request)
		status int
	}{
		"by one who may not": {
			as: func(*http.Request) string { return "" }, status: http.StatusForbidden,
		},
		"by another site": {spoil: func(_ *testing.T, r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}, status: http.StatusForbidden},
		"by a site beside it": {spoil: func(_ *testing.T, r *http.Request) {
			r.Header.Set("Sec-Fetch-Site", "same-site")
		}, status: http.StatusForbidden},
		"by another site in an old browser": {spoil: other, status: http.StatusForbidden},
		"without the cookie": {spoil: func(_ *testing.T, r *http.Request) {
			r.Header.Del("Cookie")
		}, status: http.StatusForbidden},
		"with the cookie of another form": {spoil: func(_ *testing.T, r *http.Request) {
			r.Header.Set("Cookie", "lockbeat-page=AAAAAAAAAAAAAAAAAAAAAAAAAA")
		}, status: http.StatusForbidden},
		"without both": {spoil: func(t *testing.T, r *http.Request) {
			t.Helper()
			r.Header.Set("Cookie", "lockbeat-page=")
			require.NoError(t, r.ParseForm())
			r.PostForm.Del("token")
		}, status: http.StatusForbidden},
		"without a reason": {spoil: func(t *testing.T, r *http.Request) {
			t.Helper()
			require.NoError(t, r.ParseForm())
			r.PostForm.Set("why", "  ")
		}, status: http.StatusUnprocessableEntity},
		"for a reason that the store drops": {spoil: func(t *testing.T, r *http.Request) {
			t.Helper()
			require.NoError(t, r.ParseForm())
			r.PostForm.Set("why", "\n\x00 \n")
		}, status: http.StatusUnprocessableEntity},
		"with a large body": {spoil: func(_ *testing.T, r *http.Request) {
			r.Body = io.NopCloser(io.MultiReader(r.Body, strings.NewReader(strings.Repeat("x", 16<<10))))
		}, status: http.StatusBadRequest},
		"by GET": {spoil: func(t *testing.T, r *http.Request) {
			t.Helper()
			require.NoError(t, r.ParseForm())
			r.URL.RawQuery += "&" + r.PostForm.Encode()
			r.Method = http.MethodGet
		}, status: http.StatusOK},
		"by PUT": {spoil: func(_ *testing.T, r *http.Request) {
			r.Method = http.MethodPut
		}, status: http.StatusMethodNotAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{locks: []store.Lock{held("order:42", 7, time.Hour)}}
			as := alice
			p := newPage(t, f, page.Config{BreakAs: func(r *http.Request) string { return as(r) }})
			r := fillIn(t, p, form, url.Values{"why": {"hangs"}})
			if c.as != nil {
				as = c.as
			}
			if c.spoil != nil {
				c.spoil(t, r)
			}
			assert.Equal(t, c.status, webtest.Do(p, r).StatusCode)
			assert.Empty(t, broke(f))
		})
	}
}

func TestReadOnlyPage(t *testing.T) {
	t.Parallel()
	for _, as := range []func(*http.Request) string{
		nil, func(*http.Request) string { return "" },
	} {
		f := &fake{locks: []store.Lock{held("order:42", 7, time.Hour)}}
		p := newPage(t, f, page.Config{BreakAs: as})
		assert.NotContains(t, webtest.Do(p, get(lockPath("order:42"))).Text, "break?")
		assert.Equal(t, http.StatusForbidden, webtest.Do(p, get(form)).StatusCode)
		r := fillIn(t, newPage(t, f, page.Config{BreakAs: alice}), form, url.Values{"why": {"hangs"}})
		assert.Equal(t, http.StatusForbidden, webtest.Do(p, r).StatusCode)
		assert.Empty(t, broke(f))
	}
}

func TestBreakThatFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer store.Answer
		status int
		says   string
	}{
		{store.Answer{Status: store.StatusGone}, http.StatusConflict, "has ended already"},
		{store.Answer{Status: store.StatusTaken}, http.StatusConflict, "Another lease is current"},
		{store.Answer{Err: renewer.ErrUnavailable}, http.StatusServiceUnavailable, "does not answer"},
		{
			store.Answer{Err: errors.Join(renewer.ErrUnavailable, renewer.ErrRejected)},
			http.StatusServiceUnavailable, "refuses",
		},
	} {
		f := &fake{locks: []store.Lock{held("order:42", 7, time.Hour)}, answer: c.answer}
		p := newPage(t, f, page.Config{BreakAs: alice})
		a := webtest.Do(p, fillIn(t, p, form, url.Values{"why": {"hangs"}}))
		assert.Equal(t, c.status, a.StatusCode)
		assert.Contains(t, a.Text, c.says)
	}
	f := &fake{locks: []store.Lock{held("order:42", 8, time.Hour)}}
	a := webtest.Do(newPage(t, f, page.Config{BreakAs: alice}), get(form))
	assert.Equal(t, http.StatusConflict, a.StatusCode, "the lease that was seen has ended")
}

// The store may be closed once Close has returned.
func TestCloseWaitsForABreak(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{
			locks:  []store.Lock{held("order:42", 7, time.Hour)},
			answer: store.Answer{Status: store.StatusHeld}, breaks: make(chan struct{}),
		}
		p := newPage(t, f, page.Config{BreakAs: alice})
		r := fillIn(t, p, form, url.Values{"why": {"hangs"}})
		answer, closed := make(chan webtest.Answer, 1), make(chan struct{})
		go func() { answer <- webtest.Do(p, r) }()
		synctest.Wait()
		go func() {
			defer close(closed)
			p.Close()
		}()
		synctest.Wait()
		select {
		case <-closed:
			assert.Fail(t, "the store is still asked")
		default:
		}
		close(f.breaks)
		assert.Equal(t, http.StatusSeeOther, (<-answer).StatusCode)
		<-closed
	})
}

func TestNothingIsBrokenOnceThePageIsClosed(t *testing.T) {
	t.Parallel()
	f := &fake{locks: []store.Lock{held("order:42", 7, time.Hour)}}
	as := alice
	p := newPage(t, f, page.Config{BreakAs: func(r *http.Request) string { return as(r) }})
	r := fillIn(t, p, form, url.Values{"why": {"hangs"}})
	as = func(r *http.Request) string {
		p.Close() // while the request is under way
		return alice(r)
	}
	assert.Equal(t, http.StatusServiceUnavailable, webtest.Do(p, r).StatusCode)
	assert.Empty(t, broke(f))
}

func TestStreamIsForThePageItself(t *testing.T) {
	t.Parallel()
	p := newPage(t, &fake{}, page.Config{})
	r := get("/events")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	assert.Equal(t, http.StatusForbidden, webtest.Do(p, r).StatusCode)
	r = httptest.NewRequest(http.MethodHead, "/events", http.NoBody)
	assert.Equal(t, http.StatusOK, webtest.Do(p, r).StatusCode, "it ends")
}
