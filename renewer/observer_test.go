package renewer_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// recorder writes down what it hears.
type recorder struct {
	mu     sync.Mutex
	events []any
	claims int
}

type (
	renewStart struct {
		leases int
		names  []any
	}
	cleanUp struct{}
)

type (
	startKey struct{}
	renewKey struct{}
	cleanKey struct{}
)

func (r *recorder) add(e any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

func (r *recorder) AcquireStart(ctx context.Context, e renewer.AcquireStart) context.Context {
	r.add(e)
	return context.WithValue(ctx, startKey{}, e.Name)
}

func (r *recorder) AcquireEnd(ctx context.Context, e renewer.AcquireEnd) context.Context {
	if ctx.Value(startKey{}) != e.Name {
		panic("AcquireEnd without its AcquireStart's context")
	}
	r.add(e)
	return ctx
}

func (r *recorder) Claim(ctx context.Context) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claims++
	return fmt.Sprint("trace ", ctx.Value(startKey{}), " ", r.claims)
}

func (r *recorder) RenewStart(ctx context.Context, e renewer.RenewStart) context.Context {
	s := renewStart{leases: e.Leases}
	for c := range e.Contexts {
		s.names = append(s.names, c.Value(startKey{}))
	}
	r.add(s)
	return context.WithValue(ctx, renewKey{}, e.Leases)
}

func (r *recorder) Renewed(ctx context.Context, e renewer.Renewed) {
	if ctx.Value(renewKey{}) != e.Leases {
		panic("Renewed without its RenewStart's context")
	}
	r.add(e)
}

func (r *recorder) Missed(ctx context.Context, e renewer.Missed) {
	if ctx.Value(startKey{}) != e.Name {
		panic("Missed without the lease's context")
	}
	r.add(e)
}

func (r *recorder) CleanUp(ctx context.Context) context.Context {
	r.add(cleanUp{})
	return context.WithValue(ctx, cleanKey{}, true)
}
func (r *recorder) Lost(_ context.Context, e renewer.Lost) { r.add(e) }
func (r *recorder) Released(ctx context.Context, e renewer.Released) {
	if ctx.Value(startKey{}) != e.Name {
		panic("Released without the lease's context")
	}
	r.add(e)
}

func (r *recorder) Started(*renewer.Keeper) {}

func (r *recorder) StillRuns(ctx context.Context, e renewer.StillRuns) {
	if ctx.Value(startKey{}) != e.Name {
		panic("StillRuns without the lease's context")
	}
	r.add(e)
}

func (r *recorder) Unlocked(_ context.Context, e renewer.Unlocked) { r.add(e) }

func (r *recorder) TasksInLine(e renewer.TasksInLine) { r.add(e) }

func (r *recorder) Ran(_ context.Context, e renewer.Run) { r.add(e) }

func (r *recorder) Fault(e renewer.Fault) { r.add(e) }

func heard[E any](r *recorder) []E {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []E
	for _, e := range r.events {
		if e, ok := e.(E); ok {
			found = append(found, e)
		}
	}
	return found
}

// inObserved is inBubble with an observer that writes down what it hears.
func inObserved(
	t *testing.T, cfg renewer.Config, f func(*testing.T, *script.Store, *renewer.Keeper, *recorder),
) {
	t.Helper()
	r := new(recorder)
	cfg.Observer = r
	inBubble(t, cfg, func(t *testing.T, s *script.Store, k *renewer.Keeper) { f(t, s, k, r) })
}

func TestObserverHearsAQuietLife(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		s.Mute(true)
		s.Script(script.Acquire, script.Taken(other, 2*time.Second))
		l := acquire(t, k, "a", renewer.Request{Operation: "transfer"})
		require.Equal(t, "a", l.Context().Value(startKey{}),
			"the lease's context derives from the observer's")
		waitFor(10 * time.Second)
		require.NoError(t, l.Release(t.Context()))

		start := renewer.AcquireStart{Name: "a", Operation: "transfer"}
		require.Equal(t, []renewer.AcquireStart{start}, heard[renewer.AcquireStart](r))
		require.Equal(t, []renewer.AcquireEnd{{
			AcquireStart: start, Wait: 2*time.Second + time.Millisecond, Attempts: 2,
			Fence: l.Fence(), Contended: true, Holder: other,
		}}, heard[renewer.AcquireEnd](r))
		n := len(s.Calls(script.Renew))
		require.Len(t, heard[renewer.Renewed](r), n)
		require.Equal(t, renewer.Renewed{Leases: 1, OK: 1}, heard[renewer.Renewed](r)[0])
		require.Equal(t, []renewer.Released{{
			Name: "a", Operation: "transfer", Fence: l.Fence(), Held: 10 * time.Second, Renewals: n,
		}}, heard[renewer.Released](r))
		require.Empty(t, heard[renewer.Lost](r))
		require.Empty(t, heard[renewer.Fault](r))
	})
}

// How long the holder had the lock counts up to the end of the wait, of one
// elsewhere too; and it is the one that had it last, not the one that had it
// when the caller came.
func TestObserverHearsForHowLongTheHolderHadIt(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		s.Overwrite("a", other, 3*time.Second)
		waitFor(time.Second)
		queue := make(chan *renewer.Lease)
		for _, operation := range []string{"first", "second", "third"} {
			go func() {
				l, _ := k.Acquire(t.Context(), renewer.Request{Name: "a", Operation: operation})
				queue <- l
			}()
			synctest.Wait()
		}
		for i := range 3 {
			l := <-queue
			waitFor(time.Duration(i+1) * time.Second)
			require.NoError(t, l.Release(t.Context()))
		}
		ends := heard[renewer.AcquireEnd](r)
		require.Equal(t, other, ends[0].Holder)
		require.Equal(t, 3*time.Second+time.Millisecond, ends[0].HeldFor)
		require.Equal(t, 2*time.Second+time.Millisecond, ends[0].Wait)
		for i, holder := range []string{"first", "second"} {
			require.True(t, ends[i+1].Contended)
			require.Equal(t, "here", ends[i+1].Holder.Node)
			require.Equal(t, holder, ends[i+1].Holder.Operation)
			require.Equal(t, time.Duration(i+1)*time.Second, ends[i+1].HeldFor)
		}

		s.Overwrite("a", other, time.Minute)
		waitFor(time.Second)
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: 2 * time.Second})
		require.ErrorIs(t, err, renewer.ErrBusy)
		refused := heard[renewer.AcquireEnd](r)[3]
		require.Equal(t, 3*time.Second, refused.HeldFor)
	})
}

func TestObserverHearsALoss(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		s.Default(script.Renew, script.Fail(errDown))
		s.Script(script.Release, script.Fail(errDown))
		l := acquire(t, k, "a")
		_, lost := lostAt(t, l)
		waitFor(3 * time.Second)
		require.Error(t, l.Release(t.Context()))
		waitFor(time.Second)
		require.Equal(t, []renewer.Lost{{Name: "a", Fence: l.Fence(), Held: goodFor, Err: lost}},
			round(heard[renewer.Lost](r)))
		released := heard[renewer.Released](r)
		require.Len(t, released, 1)
		require.InDelta(t, 3*time.Second, released[0].Overrun, float64(rounding))
		require.Equal(t, lost, released[0].Lost)
		beats := heard[renewer.Renewed](r)
		require.Equal(t, 1, beats[0].Failed)
		require.ErrorIs(t, beats[0].Err, errDown)
		require.Equal(t, []renewer.Fault{{Doing: "clean up", Name: "a", Err: errDown}},
			heard[renewer.Fault](r))
	})
}

func round(events []renewer.Lost) []renewer.Lost {
	for i := range events {
		events[i].Held = events[i].Held.Round(time.Millisecond)
	}
	return events
}

func TestObserverHearsRefusalsAndFaults(t *testing.T) {
	t.Parallel()
	inObserved(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper, r *recorder) {
		s.Default(script.Acquire, script.Taken(other, time.Minute))
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
		ends := heard[renewer.AcquireEnd](r)
		require.Len(t, ends, 1)
		require.Equal(t, err, ends[0].Err)
		require.Zero(t, ends[0].Fence)

		waiting := waits(t.Context(), k, renewer.Request{MaxWait: time.Second})
		require.Equal(t, 1, s.Wake("a", errDown))
		require.ErrorIs(t, <-waiting, renewer.ErrBusy)
		require.Equal(t, []renewer.Fault{{Doing: "watch", Name: "a", Err: errDown}},
			heard[renewer.Fault](r))
	})
}
