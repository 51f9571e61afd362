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
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// claim is what place number first claims.
func claim(number uint64) store.Claim {
	return store.Claim{
		Name: a.Text, Owner: "owner-of-22-bytes-1234", TTL: time.Minute, Place: number,
		Holder: store.Holder{Operation: "test"},
	}
}

func present(l *line.Line, number uint64, who string) {
	c := claim(number)
	l.Present(&c, who, false)
}

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

// waiting returns a line in which place 7 stands for a lock, and one who waits
// is told.
func waiting(wake func(error)) (l *line.Line, c channels, stop func()) {
	c = make(channels)
	l = line.New(line.Config{
		Prefix: "p:", Subscriber: c, LongWait: time.Hour,
		Key: func(name contract.Name) string { return "p:{" + name.Text + "}" },
	})
	l.Enable()
	present(l, 7, "") // it wants one
	stop = l.Watch(a, wake)
	c.hear(l, "") // the mailbox is open
	present(l, 7, "")
	l.Came(7, 1)
	l.Refused(7, true)
	return l, c, stop
}

// A turn that comes between two watches wakes the second one; and one that
// comes while another keeper watches the name, those who begin to, until a claim
// is sent from the place.
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
		assert.Equal(t, 2, woken, "it may be that one's")
		present(l, 7, "")
		third := l.Watch(a, wake)
		synctest.Wait()
		assert.Equal(t, 2, woken)
		c.hear(l, "7")
		assert.Equal(t, 5, woken)
		third()
		second()
		stop()
		l.Leave(7)
		names, places := l.Counts()
		assert.Zero(t, names)
		assert.Zero(t, places)
		l.Close()
	})
}

// A caller leaves, and the next one asks at once, without a place, before the
// one that was given up is gone. It asks again then: it would not be told that
// the lock is free.
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

		present(l, 8, "") // it has a place of its own
		present(l, 9, "")
		l.GiveUp(9)
		assert.Equal(t, 1, woken)
		l.GiveUp(8)
		stop()
		l.Close()
	})
}

// A watch that is stopped while others on the name are being woken is not
// called any more.
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

// Whatever is published on its channel, a waiter is woken for its own place
// only.
func FuzzMessages(f *testing.F) {
	for _, message := range []string{
		"7 owner-of 5 10005", "7 owner-of 5 10006", "7 owner-of 0 1", "7 owner-of -5 0", "7 owner-o 5 5",
		"7 owner-of 9007199254740991 9007199254740991", "7 owner-of 9007199254740991 9007199254740992",
		"8 owner-of 5 5", "7 owner-of 5 4", "7 another- 5 5", "7  5 5", "7 owner-of 5 5 5",
		"7 owner-of 5", "", "7", "7 ", "7 1000", "7 99999999", "8", "-7",
		"x", "7 x",
	} {
		f.Add(message)
	}
	granted := claim(7)
	f.Fuzz(func(t *testing.T, message string) {
		woken := false
		l, c, stop := waiting(func(error) { woken = true })
		woken = false
		c.hear(l, message)
		n, err := strconv.ParseUint(message, 10, 64)
		g, given := l.Given(&granted)
		require.Equal(t, message == "" || err == nil && n == 7 || given, woken)
		if given {
			require.Regexp(t, `^\+?0*7 owner-of \+?[0-9]+ \+?[0-9]+$`, message)
			require.Equal(t, store.StatusHeld, g.Status)
			require.True(t, g.Late)
			require.Positive(t, g.Fence)
			require.LessOrEqual(t, g.Fence+int64(g.Reserved), int64(schema.MaxExact))
		}
		stop()
		l.Leave(7)
		l.Close()
	})
}

// What a message tells of a grant answers the next claim, if that is the one
// that was granted, and once: however often, and in whatever order, messages
// come.
func TestAGrantIsToldOnce(t *testing.T) {
	t.Parallel()
	const message = "7 owner-of 5 8"
	want := store.Grant{Status: store.StatusHeld, Fence: 5, Reserved: 3, Late: true}
	for name, c := range map[string]struct {
		messages []string
		like     func(c *store.Claim)
		want     bool
	}{
		"told":            {[]string{message}, nil, true},
		"repeated":        {[]string{message, message}, nil, true},
		"asked to ask":    {[]string{message, "7"}, nil, true},
		"reordered":       {[]string{"7", message}, nil, true},
		"forged":          {[]string{"7 forged-- 5 8"}, nil, false},
		"a forgery later": {[]string{message, "7 forged-- 5 8"}, nil, true},
		"another owner":   {[]string{message}, func(c *store.Claim) { c.Owner = "x" }, false},
		"another TTL":     {[]string{message}, func(c *store.Claim) { c.TTL *= 2 }, false},
		"another operation": {
			[]string{message}, func(c *store.Claim) { c.Holder.Operation = "x" }, false,
		},
		"one that gives way": {
			[]string{message}, func(c *store.Claim) { c.Newness.Rank = 1 }, false,
		},
		"only asked to ask": {[]string{"7"}, nil, false},
		"another's":         {[]string{"8 owner-of 5 8"}, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, ch, stop := waiting(func(error) {})
			for _, m := range c.messages {
				ch.hear(l, m)
			}
			first := claim(7)
			if c.like != nil {
				c.like(&first)
			}
			got, ok := l.Given(&first)
			assert.Equal(t, c.want, ok)
			if ok {
				assert.Equal(t, want, got)
			}
			ch.hear(l, message)
			again := claim(7)
			_, ok = l.Given(&again)
			assert.Equal(t, !c.want, ok, "the place is used up, or is there still")
			stop()
			l.Leave(7)
			names, places := l.Counts()
			assert.Zero(t, names)
			assert.Zero(t, places)
			l.Close()
		})
	}
}

// A place stands in line as it came first, and is given up so. Of one that was
// given up before only its number is known.
func TestAPlaceStandsAsItCameFirst(t *testing.T) {
	t.Parallel()
	l, _, stop := waiting(func(error) {})
	c := claim(8)
	c.Holder.Trace = "trace"
	text := "8 " + l.ID() + " owner-of-22-bytes-1234 1000 \nnode\n1\ntest\ntrace"
	l.Present(&c, "node\n1\ntest", true)
	assert.Equal(t, " "+text, l.Text(8))
	assert.Equal(t, "0 "+text, l.Text(8), "it may stand there")
	c.TTL, c.Holder.Operation = time.Hour, "another"
	l.Present(&c, "node\n1\nanother", false)
	l.Came(8, 77)
	assert.Equal(t, "77 "+text, l.Text(8))
	hold := store.Hold{Place: 8}
	assert.Equal(t, text, l.Leaving(&hold))
	l.GiveUp(8)
	assert.Equal(t, "8 "+l.ID()+" ", l.Leaving(&hold))
	hold.Limit = true
	assert.Equal(t, "8", l.Leaving(&hold))
	stop()
	l.Leave(7)
	l.Close()
}

// A process looks after the last turn that it has given, and after none once it
// is closed.
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
