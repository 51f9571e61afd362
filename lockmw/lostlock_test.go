package lockmw_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// lostLock is what happened when a lock was lost: instants since the last
// confirmed heartbeat was sent.
type lostLock struct {
	missed    int           // heartbeats without an answer
	told      time.Duration // the holder's context ends
	returned  time.Duration // the holder's function has returned
	granted   time.Duration // the waiter has the lock
	cause     error         // of the end of the holder's context
	tokenRose bool          // from the holder to the waiter
}

// The picture in the README is of a lock that is really lost.
func TestPictureOfALostLock(t *testing.T) {
	t.Parallel()
	var lost lostLock
	synctest.Test(t, func(t *testing.T) { lost = loseALock(t) })

	require.ErrorIs(t, lost.cause, renewer.ErrLost)
	require.Equal(t, 3, lost.missed, "three heartbeats fit into what is left")
	require.Less(t, lost.told, lost.granted, "the holder is told before the waiter has the lock")
	require.Less(t, lost.returned, lost.granted)
	require.True(t, lost.tokenRose)

	picture, err := os.ReadFile("../docs/plots/lost-lock.svg")
	require.NoError(t, err)
	require.Contains(t, string(picture), fmt.Sprintf(">%.1f s: the context", lost.told.Seconds()))
	require.Contains(t, string(picture), fmt.Sprintf(">%.1f s: B has", lost.granted.Seconds()))
}

// loseALock has one process hold a lock, cuts it off from the store, and has
// another wait for the lock. The clock is simulated, so each run has the same
// instants.
func loseALock(t *testing.T) lostLock {
	t.Helper()
	store := script.New()
	newKeeper := func(o renewer.Observer) *renewer.Keeper {
		k, err := renewer.New(store,
			renewer.Config{TTL: renewer.DefaultTTL, Observer: o, Log: renewer.Silent})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
		return k
	}
	beats := &heartbeats{confirmed: make(chan time.Time, 1)}
	holder, waiter := newKeeper(beats), newKeeper(nil)

	var token int64
	var lost lostLock
	var told, returned, granted time.Time
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_, _ = lockmw.Do(t.Context(), holder, "account:7", func(ctx context.Context) (any, error) {
			token = lockmw.Fence(ctx)
			<-ctx.Done()
			told, lost.cause = time.Now(), context.Cause(ctx)
			<-time.After(time.Second) // the function puts its work away
			returned = time.Now()
			return nil, lost.cause
		})
	}()
	last := <-beats.confirmed
	store.Default(script.Renew, script.Hang()) // the link of the holder is cut
	store.Default(script.Release, script.Hang())

	<-time.After(2 * time.Second)
	_, err := lockmw.Do(t.Context(), waiter, "account:7", func(ctx context.Context) (any, error) {
		granted, lost.tokenRose = time.Now(), lockmw.Fence(ctx) > token
		store.Default(script.Release, script.Pass()) // the link is mended
		return nil, nil
	}, lockmw.Wait(time.Minute))
	require.NoError(t, err)
	<-finished
	synctest.Wait()

	lost.missed, lost.told = len(beats.sent)-1, told.Sub(last)
	lost.returned, lost.granted = returned.Sub(last), granted.Sub(last)
	return lost
}

// heartbeats are those of the holder.
type heartbeats struct {
	renewer.NopObserver

	sent      []time.Time
	confirmed chan time.Time // when the first one that was answered was sent
}

func (h *heartbeats) RenewStart(ctx context.Context, _ renewer.RenewStart) context.Context {
	h.sent = append(h.sent, time.Now())
	return ctx
}

func (h *heartbeats) Renewed(_ context.Context, e renewer.Renewed) {
	if e.OK == 1 {
		h.confirmed <- h.sent[0]
	}
}
