package jobtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

var cases = []struct {
	name string
	test func(t *testing.T, b *bench)
}{
	{"contended", testContended},
	{"held", testHeld},
	{"killed", testKilled},
	{"restarted", testRestarted},
	{"restarted while it waits for its first", testRestartedAhead},
	{"churn", testChurn},
	{"cancelled while it runs", testCancelledRun},
	{"removed from the line", testRemoved},
	{"last attempt", testLastAttempt},
	{"moved queue", testMovedQueue},
	{"forged place", testForgedPlace},
	{"no key", testNoKey},
	{"mistake", testMistake},
	{"panic", testPanic},
	{"lost lock", testLostLock},
	{"replaced", testReplaced},
	{"replaced, and fails", testReplacedFails},
	{"storm, the newest waits", storm(lockmw.Latest())},
	{"storm, the newest wins", storm(lockmw.Replace())},
	{"limit", testLimit},
	{"two limits", several(3, 5)},
	{"two locks", several(0, 1)},
}

// lease is the key of u1's lock.
const lease = "lockbeat:{u1}"

// numbered are n names.
func numbered(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint("job ", i))
	}
	return names
}

func brief(context.Context, Job) error {
	<-time.After(tick)
	return nil
}

// Many jobs of one key, on two servers: one runs at a time, each once.
func testContended(_ *testing.T, b *bench) {
	b.serve(8, brief)
	names := numbered(24)
	b.enqueue("u1", names...)
	b.awaitRuns(soon, names...)
	b.awaitDone(1)
}

// A holder that is no job: those that want its lock keep no worker, and run at
// its release, in order.
func testHeld(t *testing.T, b *bench) {
	release := b.hold()
	b.serve(1, brief)
	for i, name := range []string{"a", "b", "c"} {
		b.enqueue("u1", name)
		b.awaitLine(int64(i + 1))
	}
	b.enqueue("u2", "of another key")
	b.awaitRuns(soon, "of another key")
	all, begun := []string{"of another key", "a", "b", "c"}, time.Now()
	release()
	b.awaitRuns(goesOn, all...)
	if time.Since(begun) < time.Second { // else one may have been passed over
		assert.Equal(t, all, b.runs())
	}
	b.awaitDone(1)
}

// The process of the holder was killed: those in line run when the lease has
// lapsed.
func testKilled(t *testing.T, b *bench) {
	b.serve(2, brief)
	require.NoError(t, b.locks.Do("SET", lease, "dead", "PX", "1000").Error())
	b.enqueue("u1", "a", "b")
	b.awaitRuns(goesOn, "a", "b")
	b.awaitDone(1)
}

// The servers are restarted while jobs stand in line, or wait in a worker, some
// on their last attempt: those go on in a process in which none have met.
func testRestarted(t *testing.T, b *bench) {
	b.ttl = time.Minute // none comes by itself
	release, k := b.hold(), b.keeper()
	stop := b.Serve(k, 2, b.recorded(brief))
	names := numbered(12)
	for i, name := range names {
		b.Enqueue(Job{Key: "u1", Name: name, Last: i%2 == 0})
	}
	b.awaitLine(int64(len(names)))
	release()
	require.Eventually(t, func() bool { return len(b.runs()) > 2 }, goesOn, tick, "%v", b)
	stop()
	require.NoError(t, k.Shutdown(context.Background()))
	b.serve(2, brief)
	b.awaitRuns(goesOn, names...)
	b.awaitDone(1)
}

// A server is restarted whose process waits in the place of the first in line:
// that goes on in another process.
func testRestartedAhead(t *testing.T, b *bench) {
	b.ttl = time.Minute // none comes by itself
	release, k := b.hold(), b.keeper()
	stop := b.Serve(k, 2, b.recorded(brief))
	b.enqueue("u1", "a")
	b.awaitLine(1)
	stop()
	require.NoError(t, k.Shutdown(context.Background()))
	b.serve(2, brief)
	release()
	b.awaitRuns(goesOn, "a")
	b.awaitDone(1)
}

// A job that is cancelled keeps its lock until its function has returned.
func testCancelledRun(t *testing.T, b *bench) {
	begun, told, returns := make(chan struct{}), make(chan error, 1), make(chan struct{})
	end := sync.OnceFunc(func() { close(returns) })
	defer end()
	b.serve(2, func(ctx context.Context, j Job) error {
		if j.Name != "cancelled" {
			return nil
		}
		close(begun)
		told <- b.end(ctx)
		<-returns
		return ctx.Err()
	})
	b.enqueue("u1", "cancelled")
	receive(t, begun)
	b.enqueue("u1", "next")
	b.awaitLine(1)
	b.Cancel("cancelled")
	require.NotErrorIs(t, receive(t, told), renewer.ErrLost)
	b.enqueue("u1", "last")
	b.awaitLine(2)
	assert.Equal(t, []string{"cancelled"}, b.runs(), "it has not returned")
	end()
	b.awaitRuns(goesOn, "cancelled", "next", "last")
}

// The first in line is taken out of its queue: the others do not wait for it.
func testRemoved(_ *testing.T, b *bench) {
	release := b.hold()
	b.serve(2, brief)
	b.enqueue("u1", "removed")
	b.awaitLine(1)
	b.enqueue("u1", "a", "b")
	b.awaitLine(3)
	b.Remove("removed")
	release()
	b.awaitRuns(goesOn, "a", "b")
	b.awaitDone(1)
}

// Jobs on their last attempt are not dropped for want of their lock.
func testLastAttempt(_ *testing.T, b *bench) {
	release := b.hold()
	b.serve(2, brief)
	names := numbered(4)
	for _, name := range names {
		b.Enqueue(Job{Key: "u1", Name: name, Last: true})
	}
	b.awaitLine(4)
	release()
	b.awaitRuns(goesOn, names...)
	b.awaitDone(1)
}

// The queue has moved to another database, and the servers with it: jobs there
// do not wait for those that stand in the old one's line, which keep their
// places until it is served again.
func testMovedQueue(t *testing.T, b *bench) {
	b.ttl = time.Minute // none comes by itself
	release, k := b.hold(), b.keeper()
	stop := b.Serve(k, 2, b.recorded(brief))
	b.enqueue("u1", "old")
	b.awaitLine(1)
	stop()
	require.NoError(t, k.Shutdown(context.Background()))
	old := b.Framework
	b.Framework = b.open(t)
	b.serve(2, brief)
	b.enqueue("u1", "a", "b")
	b.awaitLine(2)
	release()
	b.awaitRuns(goesOn, "a", "b")
	b.awaitDone(1)
	release = b.hold()
	b.Framework = old
	b.serve(2, brief)
	b.enqueue("u1", "c", "d")
	b.awaitLine(3)
	release()
	b.awaitRuns(goesOn, "a", "b", "c", "d", "old")
	b.awaitDone(1)
}

// A place in line that another program has written does not call a job that
// waits for another lock.
func testForgedPlace(t *testing.T, b *bench) {
	b.ttl = time.Minute // none comes by itself
	const other = "lockbeat:{u2}"
	require.NoError(t, b.locks.Do("SET", other, "dead", "PX", "600000").Error())
	b.serve(2, brief)
	b.enqueue("u2", "of another key")
	b.awaitLine(1)
	keys, err := b.locks.Do("KEYS", other+":tasks*").AsStrSlice()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	forged := lease + strings.TrimPrefix(keys[0], other)
	require.NoError(t, b.locks.Do("RENAME", keys[0], forged).Error())
	require.NoError(t, b.locks.Do("DEL", other).Error())
	release := b.hold()
	b.enqueue("u1", "a")
	require.Eventually(t, func() bool {
		places, err := b.locks.Do("ZCARD", forged).AsInt64()
		return err == nil && places == 2
	}, soon, tick, "it stands behind; %v", b)
	release()
	require.Eventually(t, func() bool {
		left, err := b.locks.Do("EXISTS", forged).AsInt64()
		return err == nil && left == 0
	}, soon, tick, "no job has the place; %v", b)
	require.Equal(t, []string{"a"}, b.runs())
}

// A job without a name for its lock fails, and does not run.
func testNoKey(t *testing.T, b *bench) {
	b.serve(2, brief)
	b.enqueue("", "no key")
	b.awaitFailed()
	assert.Empty(t, b.runs())
}

// A job whose limit is invalid fails: else it would come back for ever, and
// nobody would hear why.
func testMistake(t *testing.T, b *bench) {
	b.serve(2, brief)
	b.Enqueue(Job{Key: "u1", Limit: -1, Name: "never runs"})
	b.awaitFailed()
	assert.Empty(t, b.runs())
}

// A job that panics has failed, and its lock is free.
func testPanic(_ *testing.T, b *bench) {
	b.serve(2, func(_ context.Context, j Job) error {
		if j.Name == "panics" {
			panic("as the test wants it")
		}
		return nil
	})
	b.enqueue("u1", "panics")
	b.awaitFailed()
	b.enqueue("u1", "next")
	b.awaitRuns(goesOn, "panics", "next")
}

// A job that loses its lock is told why, and fails as it says itself.
func testLostLock(t *testing.T, b *bench) {
	told := make(chan error, 1)
	b.serve(2, func(ctx context.Context, j Job) error {
		if j.Name == "next" {
			return nil
		}
		require.NoError(t, b.locks.Do("DEL", lease).Error())
		told <- b.end(ctx)
		return ctx.Err()
	})
	b.enqueue("u1", "loses")
	require.ErrorIs(t, receive(t, told), renewer.ErrLost)
	b.awaitFailed()
	b.enqueue("u1", "next")
	b.awaitRuns(goesOn, "loses", "next")
}

// The newest job ends the one that runs, which is done: it has not failed, and
// does not run again.
func testReplaced(t *testing.T, b *bench) {
	b.replaced(t, context.Canceled)
	b.awaitDone(1)
}

// One that was replaced, and returns an error of its own, does not run again
// either. Of the error a framework tells, or counts it, as it can.
func testReplacedFails(t *testing.T, b *bench) {
	b.replaced(t, errors.New("the disk is full"))
	require.Eventually(t, func() bool { return b.Left() == 0 }, soon, look, "%v", b)
}

// replaced runs a job that returns an error when the newest one ends it.
func (b *bench) replaced(t *testing.T, own error) {
	t.Helper()
	begun, told := make(chan struct{}), make(chan error, 1)
	b.serve(2, func(ctx context.Context, j Job) error {
		if j.Name == "newest" {
			return nil
		}
		close(begun)
		told <- b.end(ctx)
		return own
	}, lockmw.Replace())
	b.enqueue("u1", "replaced")
	receive(t, begun)
	b.enqueue("u1", "newest")
	require.ErrorIs(t, receive(t, told), renewer.ErrReplaced)
	b.awaitRuns(soon, "replaced", "newest")
}

// Behind a limit that holders fill who are no jobs, none keeps a worker. At the
// release of all three, three run at once, and no fourth.
func testLimit(t *testing.T, b *bench) {
	var leases []*renewer.Lease
	for k := b.keeper(); len(leases) < 3; {
		lease, err := k.Acquire(t.Context(), renewer.Request{
			Name: "u1", Limit: func() int { return 3 },
		})
		require.NoError(t, err)
		leases = append(leases, lease)
	}
	var begun atomic.Int64
	three := make(chan struct{})
	b.serve(8, func(ctx context.Context, j Job) error {
		if begun.Add(1) == 3 {
			close(three)
		}
		select {
		case <-three:
		case <-t.Context().Done():
		}
		return brief(ctx, j)
	})
	names := numbered(12)
	for _, name := range names {
		b.Enqueue(Job{Key: "u1", Limit: 3, Name: name})
	}
	b.awaitLine(int64(len(names)))
	for _, lease := range leases {
		require.NoError(t, lease.Release(t.Context()))
	}
	b.awaitRuns(goesOn, names...)
	b.awaitDone(3)
}

// several is a case of jobs that want two limits each, or two locks: that of
// their key, and one of all. None runs beside too many, and none is forgotten on
// its way from one line to the other.
func several(limit, all int) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) {
		b.serve(8, brief)
		names := numbered(20)
		for i, name := range names {
			b.Enqueue(Job{Key: fmt.Sprint("u", i%2), Limit: limit, All: all, Name: name})
		}
		b.awaitRuns(soon, names...)
		b.awaitNoneLeft()
		b.mu.Lock()
		defer b.mu.Unlock()
		assert.LessOrEqual(t, b.most, max(limit, 1), "of a key")
		assert.LessOrEqual(t, b.mostNow, all, "of all")
	}
}
