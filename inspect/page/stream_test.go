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

// listEvent is what list.js reads.
type listEvent struct {
	Whole, Cut bool
	Set        [][]any
	Until      [][2]int64
	Gone       []int
}

// only decodes the one event that a looker was sent.
func only[T any](t *testing.T, l *looker, kind string) (v T) {
	t.Helper()
	events := l.events()
	require.Len(t, events, 1)
	data, ok := strings.CutPrefix(events[0], "event: "+kind+"\ndata: ")
	require.True(t, ok, events[0])
	require.NoError(t, json.Unmarshal([]byte(data), &v))
	return v
}

func TestAllWhoLookShareOneReadingASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{locks: []store.Lock{held("a", 1, time.Minute)}}
		p := newPage(t, f, page.Config{})
		webtest.Do(p, get("/"))
		<-time.After(time.Minute)
		lists, _ := f.asked()
		require.Equal(t, 1, lists, "nobody looks")

		var lookers []*looker
		for range 50 {
			lookers = append(lookers, lookAt(t, p, "/events", nil), lookAt(t, p, "/events?name=a", nil))
			<-time.After(7 * time.Millisecond)
		}
		<-time.After(10*time.Second - 350*time.Millisecond - time.Millisecond)
		for range 50 { // who reloads costs nothing either
			webtest.Do(p, get("/"))
			webtest.Do(p, get(lockPath("a")))
		}
		lists, shows := f.asked()
		assert.Equal(t, 1+10, lists)
		assert.Equal(t, 10, shows)
		for _, l := range lookers {
			assert.Len(t, l.events(), 10)
			l.leave()
		}
		synctest.Wait()
		<-time.After(page.LingerFor + time.Second)
		lists, shows = f.asked()
		assert.Equal(t, 1+10+int(page.LingerFor/time.Second), lists, "for who comes back")
		assert.Equal(t, 10, shows)
		<-time.After(time.Hour)
		after, _ := f.asked()
		assert.Equal(t, lists, after, "nobody looks any more")
		assert.Zero(t, p.Kept())
	})
}

func TestPauseIsFourTimesAsLongAsReading(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: 2 * time.Second}
		p := newPage(t, f, page.Config{})
		lookAt(t, p, "/events", nil)
		<-time.After(59 * time.Second)
		lists, _ := f.asked()
		assert.Equal(t, 6, lists)
	})
}

func TestStreamSendsDifferences(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		for i := range 100 {
			f.locks = append(f.locks, held(fmt.Sprint("lock:", i), int64(i+1), time.Minute))
		}
		p := newPage(t, f, page.Config{})
		l := lookAt(t, p, "/events", nil)
		synctest.Wait()
		first := only[listEvent](t, l, "locks")
		assert.True(t, first.Whole)
		assert.Len(t, first.Set, 100)

		// The leases run down, and when they lapse is read to the millisecond
		// or so.
		for _, jitter := range []time.Duration{0, 3 * time.Millisecond, -4 * time.Millisecond} {
			f.change(func() { f.locks[3].Slots[0].TTL += jitter })
			<-time.After(time.Second)
			synctest.Wait()
			assert.Zero(t, only[listEvent](t, l, "locks"))
		}

		f.change(func() {
			f.locks[7].Slots[0].TTL += 5 * time.Second // renewed
			f.locks[8].Waiting = 3
			f.locks[9].Slots[0].Fence = 777 // handed on within a moment
			f.locks = append(f.locks[1:], held("new", 1000, 0))
		})
		<-time.After(time.Second)
		synctest.Wait()
		e := only[listEvent](t, l, "locks")
		assert.False(t, e.Whole)
		require.Len(t, e.Gone, 1)
		var names []any
		for _, row := range e.Set {
			names = append(names, row[1])
		}
		assert.ElementsMatch(t, []any{"lock:8", "lock:9", "new"}, names)
		assert.Len(t, e.Until, 1, "of the one that was renewed nothing else is sent")
	})
}

func TestOneLockIsSentWhenItChanges(t *testing.T) {
	t.Parallel()
	type event struct {
		Lock *struct {
			Slots []struct {
				Node, Fence string
				Broken      *struct{ By, Why string }
			}
			Places  []struct{ Node string }
			Waiting int
		}
	}
	synctest.Test(t, func(t *testing.T) {
		l := held("a", 1<<62+1, time.Minute)
		f := &fake{locks: []store.Lock{l}}
		p := newPage(t, f, page.Config{})
		looker := lookAt(t, p, "/events?name=a", nil)
		next := func() event {
			<-time.After(time.Second)
			synctest.Wait()
			return only[event](t, looker, "lock")
		}
		synctest.Wait()
		first := only[event](t, looker, "lock")
		require.NotNil(t, first.Lock)
		assert.Equal(t, "4611686018427387905", first.Lock.Slots[0].Fence, "not a float")
		assert.Nil(t, next().Lock, "a lease that runs down is no news")
		f.change(func() { f.locks[0].Slots[0].TTL += 3 * time.Millisecond })
		assert.Nil(t, next().Lock, "read a little later")
		f.change(func() { f.locks[0].Slots[0].TTL += 5 * time.Second })
		assert.NotNil(t, next().Lock, "renewed")
		broken := held("a", 1<<62+1, time.Minute)
		broken.Slots[0].Broken = &store.Broken{By: "bob", Why: "stuck"}
		broken.Places = []store.Place{{Holder: store.Holder{Node: "web-2"}, Since: time.Now()}}
		f.change(func() { f.locks = []store.Lock{broken} })
		e := next()
		require.NotNil(t, e.Lock)
		assert.Equal(t, "web-2", e.Lock.Places[0].Node)
		assert.Equal(t, "stuck", e.Lock.Slots[0].Broken.Why)
		assert.Nil(t, next().Lock)
	})
}

func TestSlowLookerIsCutOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{locks: []store.Lock{held("a", 1, time.Minute)}}
		p := newPage(t, f, page.Config{})
		stuck := make(chan struct{})
		slow, quick := lookAt(t, p, "/events", stuck), lookAt(t, p, "/events", nil)
		<-time.After(time.Minute - time.Millisecond)
		synctest.Wait()
		lists, _ := f.asked()
		assert.Len(t, quick.events(), lists, "the others wait for none")
		close(stuck)
		synctest.Wait()
		assert.True(t, slow.ended())
		assert.LessOrEqual(t, len(slow.events()), 18, "no more is kept for it")
		assert.False(t, quick.ended())
	})
}

func TestStoreThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{locks: []store.Lock{held("a", 1, time.Minute)}}
		p := newPage(t, f, page.Config{})
		l := lookAt(t, p, "/events", nil)
		synctest.Wait()
		l.events()
		type fault struct{ Title, Advice, Detail string }
		for err, title := range map[error]string{
			fmt.Errorf("%w: no route", renewer.ErrUnavailable):         "The store does not answer.",
			errors.Join(renewer.ErrUnavailable, renewer.ErrRejected):   "The store refuses this.",
			errors.Join(renewer.ErrUnavailable, renewer.ErrOverloaded): "The store is overloaded.",
		} {
			f.change(func() { f.err = err })
			<-time.After(time.Second)
			synctest.Wait()
			told := only[fault](t, l, "fault")
			assert.Equal(t, title, told.Title)
			assert.NotEmpty(t, told.Advice)
			assert.Contains(t, webtest.Do(p, get("/")).Text, title)
		}
		f.change(func() { f.err = nil })
		<-time.After(time.Second)
		synctest.Wait()
		assert.True(t, only[listEvent](t, l, "locks").Whole)

		// One that hangs is given up, and a page waits for less.
		f.change(func() { f.takes = time.Hour })
		<-time.After(time.Second)
		before := time.Now()
		assert.Contains(t, webtest.Do(newPage(t, f, page.Config{}), get("/")).Text, "Reading the store")
		assert.LessOrEqual(t, time.Since(before), 3*time.Second)
		<-time.After(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, "The store does not answer.", only[fault](t, l, "fault").Title)
	})
}

// Who reloads a page without script gets what was being read.
func TestSlowReadingIsThereForWhoAsksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{locks: []store.Lock{held("a", 1, time.Minute)}, takes: 3 * time.Second}
		p := newPage(t, f, page.Config{})
		assert.Contains(t, webtest.Do(p, get("/")).Text, "Reading the store")
		<-time.After(2 * time.Second)
		assert.Contains(t, webtest.Do(p, get("/")).Text, "<bdi>a</bdi>")
		lists, _ := f.asked()
		assert.Equal(t, 1, lists)
	})
}

func TestListIsCut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{locks: []store.Lock{held("a", 1, 0), held("b", 2, 0), held("c", 3, 0)}}
		p := newPage(t, f, page.Config{Most: 2})
		l := lookAt(t, p, "/events", nil)
		synctest.Wait()
		e := only[listEvent](t, l, "locks")
		assert.True(t, e.Cut)
		assert.Len(t, e.Set, 2)
		text := webtest.Do(p, get("/")).Text
		assert.NotContains(t, text, `id="cut" class="note" hidden`)
		assert.Equal(t, "Held 2&#43;", firstRow(t, text)[0])
		whole := newPage(t, f, page.Config{Most: 3})
		assert.Contains(t, webtest.Do(whole, get("/")).Text, `id="cut" class="note" hidden`)
	})
}

func TestCloseEndsStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{takes: time.Hour, deaf: time.Second}
		p := newPage(t, f, page.Config{})
		all := []*looker{lookAt(t, p, "/events", nil), lookAt(t, p, "/events?name=a", nil)}
		synctest.Wait()
		before := time.Now()
		p.Close()
		assert.Equal(t, time.Second, time.Since(before), "the store may be closed from then on")
		p.Close()
		synctest.Wait()
		for _, l := range all {
			assert.True(t, l.ended())
		}
		assert.Equal(t, http.StatusServiceUnavailable, webtest.Do(p, get("/")).StatusCode)
	})
}

// Of the places for streams one client has a half at most.
func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, &fake{}, page.Config{})
		refused := func(client string) bool {
			l := lookFrom(t, client, p, "/events", nil)
			synctest.Wait()
			return l.ended() && l.Status.Code == http.StatusServiceUnavailable
		}
		first := lookFrom(t, "a", p, "/events", nil)
		for range page.MostEach - 1 {
			lookFrom(t, "a", p, "/events", nil)
		}
		synctest.Wait()
		assert.True(t, refused("a"))
		for range page.MostSeats - page.MostEach {
			lookFrom(t, "b", p, "/events", nil)
		}
		synctest.Wait()
		assert.True(t, refused("c"))
		first.leave()
		<-first.done
		assert.False(t, refused("c"))
	})
}

// A page of a single lock has the store read that lock, for a while: so many at
// once, of each client a half at most, also by streams. What is read already
// costs nothing, and the list is shown to all.
func TestPagesOfSingleLocksAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{locks: []store.Lock{held("n0", 1, time.Minute)}}
		p := newPage(t, f, page.Config{})
		status := func(client string, n int) int {
			return webtest.Do(p, getFrom(client, lockPath(fmt.Sprint("n", n)))).StatusCode
		}
		shown := func(client string, first int) (n int) {
			for i := range page.MostSeats {
				if status(client, first+i) == http.StatusOK {
					n++
				}
			}
			return n
		}
		assert.Equal(t, page.MostEach, shown("a", 0))
		assert.Equal(t, http.StatusOK, status("a", 0), "it is read already")
		stream := lookFrom(t, "a", p, "/events?name=another", nil)
		synctest.Wait()
		assert.True(t, stream.ended())
		assert.Equal(t, http.StatusOK, webtest.Do(p, getFrom("a", "/")).StatusCode)
		assert.Equal(t, page.MostSeats-page.MostEach, shown("b", 1000))
		assert.Zero(t, shown("c", 2000))
		_, shows := f.asked()
		assert.Equal(t, page.MostSeats, shows)
		assert.Equal(t, page.MostSeats+1, p.Kept())

		<-time.After(2 * time.Second)
		synctest.Wait()
		assert.Zero(t, p.Kept(), "nobody looks any more")
		assert.Equal(t, page.MostEach, shown("c", 3000))
	})
}
