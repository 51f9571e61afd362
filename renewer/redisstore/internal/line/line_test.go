package line_test

import (
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/line"
)

var a, b = contract.Name{Text: "a"}, contract.Name{Text: "b"}

// channels stand for a subscription. The server's part is played by the test.
type channels map[string]func(message string, err error)

func (c channels) Watch(channel string, hear func(string, error)) (stop func()) {
	c[channel] = hear
	return func() { delete(c, channel) }
}

func (c channels) Watching() bool   { return len(c) > 0 }
func (c channels) Mark(string) bool { return false }

// hear has the process hear a message by its mailbox.
func (c channels) hear(l *line.Line, message string) { c["p:{"+l.ID()+"}:inbox"](message, nil) }

// waiting returns a line in which place 7 stands for a lock, and one who waits is told.
func waiting(wake func(error)) (l *line.Line, c channels, stop func()) {
	c = make(channels)
	l = line.New(line.Config{
		Prefix: "p:", Subscriber: c, LongWait: time.Hour,
		Key: func(name contract.Name) string { return "p:{" + name.Text + "}" },
	})
	l.Enable()
	l.Present(a, 7, "") // it wants one
	stop = l.Watch(a, wake)
	c.hear(l, "") // the mailbox is open
	l.Present(a, 7, "")
	l.Came(7, 1)
	l.Refused(7, true)
	return l, c, stop
}

// A turn that comes between two watches wakes the second one, once.
func TestATurnBeforeTheWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		woken := 0
		wake := func(error) { woken++ }
		l, c, stop := waiting(wake)
		stop()
		woken = 0
		c.hear(l, "7")
		assert.Zero(t, woken)
		stop = l.Watch(a, wake)
		synctest.Wait()
		assert.Equal(t, 1, woken, "it was its turn")
		second := l.Watch(a, wake)
		synctest.Wait()
		assert.Equal(t, 1, woken, "once")
		second()
		stop()
		l.Leave(7)
		names, places := l.Counts()
		assert.Zero(t, names)
		assert.Zero(t, places)
		l.Close()
	})
}

// A caller leaves, and the next one asks at once, without a place, before the one that was given up
// is gone. It asks again then: it would not be told that the lock is free.
func TestAPlaceIsGivenUpDuringTheNextWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		woken := 0
		l, _, stop := waiting(func(error) { woken++ })
		woken = 0
		stop()
		stop = l.Watch(a, func(error) { woken++ })
		synctest.Wait()
		assert.Zero(t, woken)
		l.GiveUp(7)
		assert.Equal(t, 1, woken)

		l.Present(a, 8, "") // it has a place of its own
		l.Present(a, 9, "")
		l.GiveUp(9)
		assert.Equal(t, 1, woken)
		l.GiveUp(8)
		stop()
		l.Close()
	})
}

// A watch that is stopped while others on the name are being woken is not called any more.
func TestStoppedByAnother(t *testing.T) {
	t.Parallel()
	stops, woken := make([]func(), 2), 0
	wake := func(other int) func(error) {
		return func(error) {
			woken++
			if stops[other] != nil {
				stops[other]()
			}
		}
	}
	l, c, stop := waiting(wake(1))
	stops[1] = l.Watch(a, wake(0))
	stops[0], woken = stop, 0
	c.hear(l, "7")
	assert.Equal(t, 1, woken)
	stops[0]()
	stops[1]()
	l.Leave(7)
	l.Close()
}

// Whatever is published on its channel, a waiter is woken for its own place only.
func FuzzMessages(f *testing.F) {
	for _, message := range []string{"", "7", "7 ", "7 1000", "7 99999999", "8", "-7", "x", "7 x"} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		woken := false
		l, c, stop := waiting(func(error) { woken = true })
		woken = false
		c.hear(l, message)
		n, err := strconv.ParseUint(message, 10, 64)
		require.Equal(t, message == "" || err == nil && n == 7, woken)
		stop()
		l.Leave(7)
		l.Close()
	})
}

// A process looks after the last turn that it has given, and after none once it is closed.
func TestTurnsAreLookedAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var mu sync.Mutex
		checks := make(map[contract.Name][]time.Duration)
		l := line.New(line.Config{Check: func(name contract.Name) {
			mu.Lock()
			defer mu.Unlock()
			checks[name] = append(checks[name], time.Since(begun))
		}})
		l.Gave(a, time.Second)
		l.Gave(b, 4*time.Second)
		<-time.After(900 * time.Millisecond)
		l.Gave(a, time.Second) // that one has claimed the lease, and freed it
		<-time.After(time.Minute)
		synctest.Wait()
		const slack = 5 * time.Millisecond
		assert.Equal(t, map[contract.Name][]time.Duration{
			a: {1900*time.Millisecond + slack},
			b: {4*time.Second + slack},
		}, checks)
		l.Gave(a, time.Second)
		l.Close()
		l.Gave(b, time.Second)
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Len(t, checks[a], 1)
		assert.Len(t, checks[b], 1)
	})
}
