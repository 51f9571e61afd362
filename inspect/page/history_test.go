package page_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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

const ttl = 15 * time.Second

// renewed has a lease last for left from now.
func (f *fake) renewed(i int, left time.Duration) {
	f.change(func() { f.locks[i].Slots[0].TTL = time.Since(f.start) + left })
}

// beat renews the first lock as a healthy process does, for some beats, and
// ends at a renewal.
func (f *fake) beat(beats int) {
	for range beats {
		<-time.After(ttl / 3)
		f.renewed(0, ttl)
	}
}

func (f *fake) gone() { f.change(func() { f.locks = nil }) }

// seen is what the latest event says of losses, and all losses that events have
// told.
type seen struct {
	Lost, Broken int
	Losses       []struct{ Name, How, Fence, Hash string }
}

func seenBy(t *testing.T, l *looker) (all seen) {
	t.Helper()
	for _, e := range l.events() {
		if data, ok := strings.CutPrefix(e, "event: locks\ndata: "); ok {
			before := all.Losses
			all = seen{}
			require.NoError(t, json.Unmarshal([]byte(data), &all))
			if all.Losses == nil {
				all.Losses = before
			}
		}
	}
	return all
}

// A lease that ends is counted as lost if that is certain, and never if its
// operation has returned.
func TestWhatIsLost(t *testing.T) {
	t.Parallel()
	broken := func(f *fake, b store.Broken) {
		f.change(func() { f.locks[0].Slots[0].Broken = &b })
	}
	for name, c := range map[string]struct {
		takes  time.Duration // what a reading takes
		most   int
		ends   func(f *fake)
		how    string // that it was lost; "" if it was not
		former string // what the lock's page says
	}{
		"its process has died": {ends: func(f *fake) {
			f.beat(3)
			<-time.After(ttl)
			f.gone()
		}, how: "not renewed in time"},
		"its process has died, and another has it at once": {ends: func(f *fake) {
			f.beat(3)
			<-time.After(ttl)
			f.change(func() { f.locks[0] = held("a", 9, 0) })
			f.renewed(0, ttl)
		}, how: "not renewed in time"},
		"it is freed": {ends: func(f *fake) {
			f.beat(3)
			<-time.After(ttl / 6)
			f.gone()
		}, former: "ended"},
		"it is freed when it was to be renewed": {ends: func(f *fake) {
			f.beat(3)
			<-time.After(ttl / 3)
			f.gone()
		}, former: "ended"},
		"it is freed between slow readings": {takes: 3 * time.Second, ends: func(f *fake) {
			f.beat(30)
			<-time.After(ttl / 6)
			f.gone()
			<-time.After(time.Minute)
		}, former: "ended"},
		"it was kept by HoldAtLeast for longer than a TTL": {ends: func(f *fake) {
			f.renewed(0, ttl)
			<-time.After(2 * time.Second)
			f.renewed(0, 28*time.Second)
			<-time.After(28 * time.Second)
			f.gone()
		}, former: "ended"},
		"it was kept by HoldAtLeast after some beats": {ends: func(f *fake) {
			f.beat(3)
			<-time.After(2 * time.Second)
			f.renewed(0, 28*time.Second)
			<-time.After(28 * time.Second)
			f.gone()
		}, former: "ended"},
		"it was kept by HoldAtLeast for about a TTL": {ends: func(f *fake) {
			<-time.After(2 * time.Second)
			f.renewed(0, ttl-time.Second)
			<-time.After(ttl - time.Second)
			f.gone()
		}, former: "ended"},
		"it was kept by HoldAtLeast for less than a TTL": {ends: func(f *fake) {
			f.beat(3)
			<-time.After(2 * time.Second)
			f.renewed(0, 4*time.Second)
			<-time.After(4 * time.Second)
			f.gone()
		}, former: "ended"},
		"it was broken": {ends: func(f *fake) {
			f.beat(1)
			broken(f, store.Broken{By: "bob", Why: "hangs"})
			<-time.After(3 * time.Second)
			f.gone()
		}, how: "broken by bob: hangs"},
		"it was replaced": {ends: func(f *fake) {
			broken(f, store.Broken{Replaced: true})
			<-time.After(3 * time.Second)
			f.gone()
		}, former: "replaced by a newer call"},
		"its key was overwritten": {ends: func(f *fake) {
			f.change(func() { f.locks[0].Slots, f.locks[0].Foreign = nil, true })
		}, how: "overwritten by another program"},
		"the store was away": {ends: func(f *fake) {
			f.beat(3)
			f.change(func() { f.err, f.locks = errors.New("away"), nil })
			<-time.After(time.Minute)
			f.change(func() { f.err = nil })
		}, former: "ended"},
		"it is not listed any more": {most: 1, ends: func(f *fake) {
			f.beat(3)
			<-time.After(ttl)
			f.change(func() {
				f.locks = []store.Lock{held("b", 11, 0), held("c", 12, 0)}
			})
		}},
		"it was handed on within its process": {ends: func(f *fake) {
			f.beat(3)
			f.change(func() { f.locks[0].Slots[0].Fence++ })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &fake{locks: []store.Lock{held("a", 7, 0)}, takes: c.takes}
				p := newPage(t, f, page.Config{Most: c.most})
				l := lookAt(t, p, "/events", nil)
				<-time.After(100 * time.Millisecond)
				c.ends(f)
				<-time.After(2 * time.Second)
				synctest.Wait()
				s := seenBy(t, l)
				l.leave()
				text := webtest.Do(p, get(lockPath("a"))).Text
				_, before, _ := strings.Cut(text, `id="before"`)
				before, _, _ = strings.Cut(before, "<template")
				if c.how == "" {
					assert.Zero(t, s)
				} else {
					c.former = c.how
					require.Len(t, s.Losses, 1)
					assert.Equal(t, 1, s.Lost)
					assert.Equal(t, strings.Contains(c.how, "broken by"), s.Broken == 1)
					assert.Equal(t, c.how, s.Losses[0].How)
					assert.Equal(t, "7", s.Losses[0].Fence)
					assert.Contains(t, webtest.Do(p, get("/")).Text, "<bdi>"+c.how+"</bdi>")
				}
				if c.former == "" {
					assert.NotContains(t, before, "<tr>\n<td")
				} else {
					assert.Contains(t, before, `<td class="how"><bdi>`+c.former+"</bdi>")
					assert.Contains(t, before, "<code>7</code>")
					assert.Contains(t, before, "web-1 · 42")
				}
			})
		})
	}
}

// Who frees a lock by force leaves nothing in the store that others see.
func TestBreakByForceIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{
			locks:  []store.Lock{held("order:42", 7, time.Hour)},
			answer: store.Answer{Status: store.StatusHeld},
		}
		p := newPage(t, f, page.Config{BreakAs: alice})
		l := lookAt(t, p, "/events", nil)
		r := fillIn(t, p, form, map[string][]string{"why": {"hangs"}, "force": {"1"}})
		require.Equal(t, http.StatusSeeOther, webtest.Do(p, r).StatusCode)
		f.gone()
		<-time.After(2 * time.Second)
		synctest.Wait()
		s := seenBy(t, l)
		require.Len(t, s.Losses, 1)
		assert.Equal(t, "broken by force by alice: hangs", s.Losses[0].How)
		assert.Equal(t, 1, s.Broken)
	})
}

// The hash of a lock that nobody has any more leads to who had it, for an hour.
func TestHashOfALockThatIsFreeLeadsToIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{locks: []store.Lock{held("order:42", 7, time.Hour)}}
		p := newPage(t, f, page.Config{})
		hash := renewer.HashName("order:42", nil)
		where := func(hash string) string {
			return webtest.Do(p, get("/lock?hash="+hash)).Header.Get("Location")
		}
		assert.Equal(t, "lock?name=order%3A42", where(hash))
		assert.Equal(t, "lock?name=order%3A42", where(strings.ToUpper(hash[:8])))
		lookAt(t, p, "/events", nil)
		<-time.After(1500 * time.Millisecond)
		f.gone()
		<-time.After(10 * time.Minute)
		assert.Contains(t, webtest.Do(p, get("/?q="+hash)).Text, `href="lock?hash=`+hash+`"`)
		assert.Equal(t, "lock?name=order%3A42", where(hash))
		assert.Contains(t, webtest.Do(p, get("/"+where(hash))).Text, "9 min 59 s ago")
		<-time.After(time.Hour)
		a := webtest.Do(p, get("/lock?hash="+hash))
		assert.Equal(t, http.StatusNotFound, a.StatusCode)
		assert.Contains(t, a.Text, "in the 1 h 00 min that this page has looked")
		for _, wrong := range []string{"", "12345", "order:42", strings.Repeat("a", 17), "%3Cb%3E00"} {
			a := webtest.Do(p, get("/lock?hash="+wrong))
			assert.Equal(t, http.StatusBadRequest, a.StatusCode, wrong)
		}

		limit := held("order:42", 8, time.Hour)
		limit.Limit = true
		f.change(func() { f.locks = []store.Lock{held("order:42", 9, 0), limit} })
		<-time.After(2 * time.Second)
		a = webtest.Do(p, get("/lock?hash="+hash))
		assert.Equal(t, http.StatusOK, a.StatusCode)
		assert.Contains(t, a.Text, `<a href="lock?name=order%3A42"><bdi>order:42</bdi></a></li>`)
		assert.Contains(t, a.Text, `<a href="lock?name=order%3A42&amp;limit=1">`)
	})
}

// What is kept of the past is bounded, and nothing is when nobody has looked
// for a while.
func TestPastIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p := newPage(t, f, page.Config{Most: 20_000})
		l := lookAt(t, p, "/events", nil)
		fence := int64(0)
		again := func(names, length int) { // others hold all locks
			f.change(func() {
				f.locks = f.locks[:0]
				for i := range names {
					fence++
					name := fmt.Sprintf("%0*d", length, i)
					f.locks = append(f.locks, held(name, fence, time.Hour))
					f.locks[i].Slots[0].PID = int(fence)
				}
			})
			<-time.After(time.Second)
			synctest.Wait()
			l.events()
		}
		for range page.MostFormer + 10 {
			again(1, 1)
		}
		text := webtest.Do(p, get(lockPath("0"))).Text
		assert.Equal(t, page.MostFormer, strings.Count(text, `<td class="how"><bdi>ended<`))
		again(4200, store.MaxName)
		again(4200, store.MaxName)
		names, bytes := p.Remembered()
		assert.LessOrEqual(t, bytes, page.MostPast)
		assert.Greater(t, names, 3000)
		assert.Less(t, names, 4200)

		broken := held("b", 1<<40, 0)
		broken.Slots[0].Broken = &store.Broken{By: "bob", Why: "hangs"}
		for range page.MostLosses + 50 {
			f.change(func() {
				broken.Slots = append([]store.Slot(nil), broken.Slots...)
				broken.Slots[0].Fence++
				broken.Slots[0].PID++
				f.locks = []store.Lock{broken}
			})
			l.events()
			<-time.After(time.Second)
			synctest.Wait()
		}
		s := seenBy(t, l)
		assert.Equal(t, page.MostLosses+50, s.Broken)
		assert.Len(t, s.Losses, page.MostLosses)
		<-time.After(time.Hour + time.Minute)
		synctest.Wait()
		assert.Zero(t, seenBy(t, l).Lost)
		names, _ = p.Remembered()
		assert.Zero(t, names)

		f.gone()
		<-time.After(2 * time.Second)
		l.leave()
		<-time.After(page.LingerFor - time.Minute)
		assert.Contains(t, webtest.Do(p, get(lockPath("b"))).Text, "broken by bob")
		<-time.After(2 * time.Minute)
		synctest.Wait()
		names, bytes = p.Remembered()
		assert.Zero(t, names)
		assert.Zero(t, bytes)
		assert.NotContains(t, webtest.Do(p, get("/")).Text, "broken by bob")
	})
}
