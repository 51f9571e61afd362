package line_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/line"
)

// told is what was shown to others, and when.
type told struct {
	after time.Duration
	shown []line.Shown
}

// showing returns a line whose mailbox is open, and what it has shown since it
// was asked last.
func showing(t *testing.T, again func() bool) (l *line.Line, all func() []told) {
	t.Helper()
	c := make(channels)
	var mu sync.Mutex
	var seen []told
	begun := time.Now()
	l = line.New(line.Config{
		Prefix: "p:", Subscriber: c, Key: func(name contract.Name) string { return "p:{" + name.Text + "}" },
		Show: func(shown []line.Shown) bool {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, told{time.Since(begun), shown})
			return again()
		},
	})
	l.Enable()
	present(l, 1, "")
	stop := l.Watch(a, func(error) {})
	t.Cleanup(stop)
	c.hear(l, "")
	return l, func() []told {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		last := seen
		seen, begun = nil, time.Now()
		return last
	}
}

func stands(l *line.Line, number uint64, who string) {
	present(l, number, who)
	l.Came(number, 1)
}

func always() bool { return true }

// Those who wait for a short time are not shown, and nothing is while none
// waits.
func TestLongWaitsAreShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, all := showing(t, always)
		defer l.Close()
		for n := uint64(1); n < 100; n++ {
			stands(l, n, "short")
			<-time.After(900 * time.Millisecond)
			l.Leave(n)
		}
		<-time.After(time.Hour)
		assert.Empty(t, all())

		stands(l, 200, "long")
		<-time.After(500 * time.Millisecond)
		stands(l, 201, "later")
		<-time.After(30 * time.Second)
		assert.Equal(t, []told{
			{time.Second, []line.Shown{{200, "long"}}},
			{2 * time.Second, []line.Shown{{200, "long"}, {201, "later"}}},
			{22 * time.Second, []line.Shown{{200, "long"}, {201, "later"}}},
		}, all())

		t.Log("another caller of the process has the place; and one leaves")
		present(l, 200, "another")
		l.Leave(201)
		<-time.After(time.Second)
		assert.Equal(t, []told{{time.Second / 2, []line.Shown{{200, "another"}}}}, all())
		l.Leave(200)
		<-time.After(time.Hour)
		assert.Empty(t, all())
	})
}

// However many wait, some are shown; and others when there is room again.
func TestSomeOfManyPlacesAreShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, all := showing(t, always)
		defer l.Close()
		for n := range uint64(1000) {
			stands(l, n+1, "")
		}
		<-time.After(10 * time.Second)
		shown := all()
		assert.Len(t, shown, 1)
		assert.Len(t, shown[0].shown, 100)
		for n := range uint64(100) {
			l.Leave(n + 1)
		}
		<-time.After(2 * time.Second)
		stands(l, 700, "") // asks again
		<-time.After(2 * time.Second)
		assert.Equal(t, []line.Shown{{700, ""}}, all()[0].shown)
	})
}

// A server that does not let us is not asked again.
func TestNothingIsShownAfterARefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, all := showing(t, func() bool { return false })
		defer l.Close()
		stands(l, 1, "")
		<-time.After(time.Hour)
		assert.Len(t, all(), 1)
		stands(l, 2, "")
		<-time.After(time.Hour)
		assert.Empty(t, all())
	})
}

// A line that is closed shows nothing any more.
func TestNothingIsShownAfterClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, all := showing(t, always)
		stands(l, 1, "")
		l.Close()
		stands(l, 2, "")
		<-time.After(time.Hour)
		assert.Empty(t, all())
	})
}
