package subscription_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/subscription"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, redistest.Lingering()...) }

const pollEvery = 5 * time.Millisecond

// patience is how long a test waits for what should come at once.
const patience = 10 * time.Second

// start returns a subscriber on a server of its own.
func start(
	t *testing.T, edit ...func(*rueidis.ClientOption),
) (*redistest.Server, *subscription.Subscriber) {
	t.Helper()
	server := redistest.Start(t)
	s := subscription.New(subscription.Config{Client: server.Client(t, edit...), Timeout: time.Second})
	t.Cleanup(s.Close)
	return server, s
}

// woken is what a watch hears.
type woken chan error

func watch(s *subscription.Subscriber, channel string) (w woken, stop func()) {
	w = make(woken, 100)
	return w, s.Watch(channel, func(_ string, err error) { w <- err })
}

func (w woken) await(t *testing.T, why string) {
	t.Helper()
	select {
	case err := <-w:
		require.NoError(t, err, why)
	case <-time.After(patience):
		t.Fatal("not woken: " + why)
	}
}

func publish(t *testing.T, server *redistest.Server, channel, message string) {
	t.Helper()
	require.NoError(t, server.Do("PUBLISH", channel, message).Error())
}

func TestMessagesAreHeard(t *testing.T) {
	t.Parallel()
	server, s := start(t)
	heard := make(chan string, 100)
	stop := s.Watch("a", func(message string, err error) {
		assert.NoError(t, err)
		heard <- message
	})
	defer stop()
	other, stopOther := watch(s, "b")
	defer stopOther()
	other.await(t, "subscribed to")
	assert.Empty(t, <-heard, "subscribed to")
	for _, message := range []string{"7", "7 1000", "anything"} {
		publish(t, server, "a", message)
		assert.Equal(t, message, <-heard)
	}
	assert.Empty(t, other)
}

// A message that comes while nothing is watched wakes the next watch, unless a
// mark says that it is known.
func TestWhatWasMissedIsMadeUpFor(t *testing.T) {
	t.Parallel()
	server, s := start(t)
	again := func(why string) {
		t.Helper()
		w, stop := watch(s, "a")
		w.await(t, why)
		stop()
	}
	again("subscribed to")
	// A second channel shows when the first one's messages have come: both are
	// on one connection.
	fence, stopFence := watch(s, "fence")
	defer stopFence()
	fence.await(t, "subscribed to")
	passed := func() {
		t.Helper()
		publish(t, server, "a", "x")
		publish(t, server, "fence", "")
		fence.await(t, "published")
	}
	passed()
	again("missed")
	passed()
	require.True(t, s.Mark("a"))
	w, stop := watch(s, "a")
	publish(t, server, "fence", "")
	fence.await(t, "published")
	publish(t, server, "a", "x")
	w.await(t, "published")
	assert.Empty(t, w, "nothing was heard since the mark, before")
	stop()
	passed()
	again("heard since the mark")
	assert.False(t, s.Mark("never watched"))
}

func TestALostConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	for name, resp2 := range map[string]bool{"RESP3": false, "RESP2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s := start(t, func(o *rueidis.ClientOption) { o.AlwaysRESP2 = resp2 })
			assert.False(t, s.Watching())
			const n = 3
			var all []woken
			for i := range n {
				w, stop := watch(s, fmt.Sprint(i))
				defer stop()
				w.await(t, "subscribed to")
				all = append(all, w)
			}
			assert.True(t, s.Watching())
			for range 3 {
				require.NoError(t, server.Do("CLIENT", "KILL", "TYPE", "pubsub").Error())
				for i, w := range all {
					require.Error(t, <-w, "told of the failure")
					w.await(t, "what was published meanwhile is lost")
					publish(t, server, fmt.Sprint(i), "us")
					w.await(t, "for us")
					assert.Empty(t, w)
				}
			}
		})
	}
}

func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	server, s := start(t)
	channels := func() int {
		all, err := server.Do("PUBSUB", "CHANNELS").AsStrSlice()
		require.NoError(t, err)
		return len(all)
	}
	connections := func() int {
		list, err := server.Do("CLIENT", "LIST").ToString()
		require.NoError(t, err)
		return strings.Count(list, "\n")
	}
	before := connections()
	w, stop := watch(s, "a")
	w.await(t, "subscribed to")
	assert.Equal(t, 1, channels())
	assert.Equal(t, before+1, connections(), "one of its own")
	stop()
	stop()
	require.Eventually(t, func() bool { return channels() == 0 }, patience, time.Millisecond)
	assert.False(t, s.Watching())
	assert.Empty(t, w)
	require.Eventually(t, func() bool { return connections() == before }, patience,
		time.Millisecond, "the connection is closed")

	w, stop = watch(s, "b")
	w.await(t, "subscribed to, on a new connection")
	s.Close()
	s.Close()
	require.ErrorIs(t, <-w, subscription.ErrClosed)
	require.Eventually(t, func() bool { return channels() == 0 }, patience, time.Millisecond)
	stop()
	w, stop = watch(s, "c")
	require.ErrorIs(t, <-w, subscription.ErrClosed, "after Close")
	stop()
	assert.Empty(t, w)
}

// A failure is told once, however often the connection is tried again.
func TestAFailureIsToldOnce(t *testing.T) {
	t.Parallel()
	server, s := start(t)
	w, stop := watch(s, "a")
	defer stop()
	w.await(t, "subscribed to")
	server.Kill()
	require.Error(t, <-w)
	for range 3 {
		late, stopLate := watch(s, "late")
		require.Error(t, <-late, "tried again")
		stopLate()
	}
	assert.Empty(t, w)
	require.NoError(t, server.Restart())
	w.await(t, "subscribed to again")
	publish(t, server, "a", "us")
	w.await(t, "for us")
}

// A watch that is stopped while others on the channel are being woken is not
// called any more.
func TestAStoppedWatchIsNotWoken(t *testing.T) {
	t.Parallel()
	server, s := start(t)
	var second woken
	var stopSecond func()
	armed := make(chan struct{})
	stop := s.Watch("a", func(string, error) {
		select {
		case <-armed:
			stopSecond()
		default:
		}
	})
	defer stop()
	second, stopSecond = watch(s, "a")
	third, stopThird := watch(s, "a")
	defer stopThird()
	second.await(t, "subscribed to")
	third.await(t, "subscribed to")
	close(armed)
	publish(t, server, "a", "us")
	third.await(t, "for us")
	assert.Empty(t, second)
}

// Names that were waited for once do not pile up where others are waited for
// all the time, and those hear all that is published meanwhile.
func TestNamesThatWereWatchedOnce(t *testing.T) {
	t.Parallel()
	server, s := start(t)
	kept, stopKept := watch(s, "kept")
	defer stopKept()
	kept.await(t, "subscribed to")
	subscribed := func() int {
		info, err := server.Do("INFO", "stats").ToString()
		require.NoError(t, err)
		_, info, _ = strings.Cut(info, "pubsub_channels:")
		info, _, _ = strings.Cut(info, "\r\n")
		n, err := strconv.Atoi(info)
		require.NoError(t, err)
		return n
	}
	const names = subscription.MostWaste + 10
	var stops [names]func()
	for i := range names {
		_, stops[i] = watch(s, fmt.Sprint(i))
	}
	require.Eventually(t, func() bool { return subscribed() == names+1 }, patience, pollEvery)
	assert.Empty(t, kept)
	for i, stop := range stops {
		stop()
		subscription.Forget(s, fmt.Sprint(i))
	}
	require.Eventually(t, func() bool { return subscribed() == 1 }, patience, pollEvery)
	kept.await(t, "subscribed to anew: a message may have passed unheard")
	subscription.Forget(s, "kept") // as it is watched, it stays
	publish(t, server, "kept", "us")
	kept.await(t, "for us")
	assert.Empty(t, kept)
}

// A process that had waited for a lock ended when the disk of its server was
// full, or when its server had lost the primary: the client sends PING behind
// UNSUBSCRIBE, and panics at an answer to it that it does not know.
func TestAnswersThatEndedTheProcess(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*testing.T, *redistest.Server){
		"MISCONF": func(t *testing.T, server *redistest.Server) {
			require.NoError(t, server.FillDisk())
		},
		"MASTERDOWN": func(t *testing.T, server *redistest.Server) {
			require.NoError(t,
				server.Do("CONFIG", "SET", "replica-serve-stale-data", "no").Error())
			require.NoError(t, server.Do("REPLICAOF", "127.0.0.1", "1").Error())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, s := start(t)
			first, stopFirst := watch(s, "a")
			second, stopSecond := watch(s, "b")
			first.await(t, "subscribed to")
			second.await(t, "subscribed to")
			spoil(t, server)
			require.ErrorContains(t, server.Do("PING").Error(), name)
			stopFirst()
			subscription.Forget(s, "a")
			third, stopThird := watch(s, "c")
			third.await(t, "subscribed to, on the same connection, behind what is done for a")
			assert.Empty(t, second)
			stopSecond()
			stopThird()
			require.Eventually(t, func() bool { return !s.Watching() }, patience, pollEvery)
			again, stopAgain := watch(s, "a")
			defer stopAgain()
			again.await(t, "subscribed to")
		})
	}
}
