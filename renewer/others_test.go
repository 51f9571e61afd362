package renewer_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// distant is a store behind a link: a request takes trip to get there, and its
// answer as long.
type distant struct {
	engine.Whole
	trip time.Duration
	// answer has the answers to an acquire lost, late, or changed; nil for
	// none.
	answer func(claims []store.Claim, grants []store.Grant) []store.Grant

	asked atomic.Int32 // acquires
}

func (d *distant) Engine() store.Store { return d }

func (d *distant) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	claims = slices.Clone(claims)
	d.asked.Add(1)
	waitFor(d.trip)
	grants := d.Whole.Acquire(ctx, claims)
	waitFor(d.trip)
	if d.answer != nil {
		grants = d.answer(claims, grants)
	}
	for i := range grants {
		if ctx.Err() != nil { // nobody hears of it
			grants[i] = store.Grant{Err: ctx.Err()}
		}
	}
	return grants
}

func (d *distant) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	waitFor(d.trip)
	answers := d.Whole.Release(ctx, holds)
	waitFor(d.trip)
	return answers
}

// onDistant runs f in a bubble with a keeper on a store behind a link of 2 ms.
func onDistant(t *testing.T, f func(t *testing.T, d *distant, k *renewer.Keeper)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &distant{Whole: engine.In(memory.New()), trip: time.Millisecond}
		k, err := renewer.New(d, config)
		require.NoError(t, err)
		f(t, d, k)
		require.NoError(t, k.Shutdown(t.Context()))
		names, orphans := k.NamesAndOrphans()
		require.Zero(t, names+orphans)
		l, err := d.Show(t.Context(), "a", true)
		require.NoError(t, err)
		require.Empty(t, l.Slots, "nothing is left behind")
	})
}

// crowdOf has callers hold slots of a limit of 100 for 100 ms each, for half a
// second, and returns how many had one, and how many questions that took.
func crowdOf(t *testing.T, callers int, keepers int) (granted, asked int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &distant{Whole: engine.In(memory.New()), trip: time.Millisecond}
		all := make([]*renewer.Keeper, keepers)
		for i := range all {
			var err error
			all[i], err = renewer.New(d, config)
			require.NoError(t, err)
		}
		end := time.Now().Add(500 * time.Millisecond)
		var running, grants atomic.Int32
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for time.Now().Before(end) {
					l, err := all[i%keepers].Acquire(t.Context(), renewer.Request{
						Name: "a", Limit: slots(100),
					})
					if !assert.NoError(t, err) {
						return
					}
					assert.LessOrEqual(t, running.Add(1), int32(100))
					waitFor(100 * time.Millisecond)
					running.Add(-1)
					grants.Add(1)
					assert.NoError(t, l.Release(t.Context()))
				}
			})
		}
		wg.Wait()
		for _, k := range all {
			require.NoError(t, k.Shutdown(t.Context()))
		}
		granted, asked = int(grants.Load()), int(d.asked.Load())
	})
	return granted, asked
}

// More callers than slots use the limit as well as a few less than it has
// slots: the one at the front of a process asks for those behind it, too.
func TestMoreCallersThanSlots(t *testing.T) {
	t.Parallel()
	fewer, _ := crowdOf(t, 95, 1)
	require.Greater(t, fewer, 400)
	for _, c := range []struct{ callers, keepers int }{{110, 1}, {200, 4}} {
		granted, asked := crowdOf(t, c.callers, c.keepers)
		assert.Greater(t, granted, fewer*9/10, "%+v", c)
		assert.Less(t, asked, granted, "%+v", c)
	}
}

// More callers come than the limit can serve, and each gives up in the end. Its
// slots go on being had: those that were asked for together used to be given
// back, as the one at the front had gone.
func TestAnOverloadedLimitGoesOn(t *testing.T) {
	t.Parallel()
	onDistant(t, func(t *testing.T, d *distant, k *renewer.Keeper) {
		d.trip = 5 * time.Millisecond
		var late, running atomic.Int32
		var wg sync.WaitGroup
		for begun := time.Now(); time.Since(begun) < 4*time.Second; waitFor(time.Second / 800) {
			wg.Go(func() {
				l, err := k.Acquire(t.Context(), renewer.Request{
					Name: "a", Limit: slots(20), MaxWait: time.Second,
				})
				if err != nil {
					assert.ErrorIs(t, err, renewer.ErrBusy)
					return
				}
				assert.LessOrEqual(t, running.Add(1), int32(20))
				waitFor(20 * time.Millisecond)
				if time.Since(begun) > 3*time.Second {
					late.Add(1)
				}
				running.Add(-1)
				assert.NoError(t, l.Release(t.Context()))
			})
		}
		wg.Wait()
		assert.Greater(t, late.Load(), int32(150), "in the last second")
	})
}

// Who waits has a slot in the order in which all came, also if several are had
// at once.
func TestSlotsOfOneQuestionAreHadInOrder(t *testing.T) {
	t.Parallel()
	onDistant(t, func(t *testing.T, d *distant, k *renewer.Keeper) {
		held := make([]*renewer.Lease, 10)
		for i := range held {
			held[i] = acquire(t, k, "a", renewer.Request{Limit: slots(len(held))})
		}
		fences := make([]int64, 40)
		var wg sync.WaitGroup
		for i := range fences {
			wg.Go(func() {
				l := acquire(t, k, "a", renewer.Request{Limit: slots(len(held))})
				fences[i] = l.Fence()
				assert.True(t, l.Valid())
				waitFor(20 * time.Millisecond)
				assert.NoError(t, l.Release(t.Context()))
			})
			waitFor(time.Microsecond)
		}
		waitFor(10 * time.Millisecond)
		asked := d.asked.Load()
		for _, l := range held {
			wg.Go(func() { assert.NoError(t, l.Release(t.Context())) })
		}
		wg.Wait()
		assert.IsIncreasing(t, fences)
		assert.Less(t, d.asked.Load()-asked, int32(25), "questions for 40 slots")
	})
}

// fill takes both slots of a limit of two, and has so many callers wait for
// one.
func fill(t *testing.T, k *renewer.Keeper, waiting int) (held []*renewer.Lease, callers []*caller) {
	t.Helper()
	for range 2 {
		held = append(held, acquire(t, k, "a", renewer.Request{Limit: slots(2)}))
	}
	for range waiting {
		callers = append(callers, startAcquire(t, nil, k, renewer.Request{Limit: slots(2)}))
		waitFor(20 * time.Millisecond)
	}
	return held, callers
}

// A caller leaves while the front asks for it, too: the slot that it would have
// had goes on.
func TestASlotForOneWhoHasLeft(t *testing.T) {
	t.Parallel()
	onDistant(t, func(t *testing.T, _ *distant, k *renewer.Keeper) {
		held, callers := fill(t, k, 3)
		for _, l := range held {
			require.NoError(t, l.Release(t.Context()))
		}
		callers[1].leave() // the question is under way
		<-callers[1].got
		require.ErrorIs(t, callers[1].err, context.Canceled)
		for _, c := range []*caller{callers[0], callers[2]} {
			<-c.got
			require.NoError(t, c.err)
		}
		for _, c := range []*caller{callers[0], callers[2]} {
			require.NoError(t, c.lease.Release(t.Context()))
		}
	})
}

// The answer to a question for several does not come, or too late to be
// believed: what the store has given is given back, and all are asked for
// again.
func TestAnAnswerForSeveralIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		late time.Duration
		err  error
	}{"lost": {0, errors.New("lost")}, "late": {goodFor, nil}, "not sent": {0, store.ErrNotSent}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onDistant(t, func(t *testing.T, d *distant, k *renewer.Keeper) {
				held, callers := fill(t, k, 4)
				var several atomic.Int32
				d.answer = func(claims []store.Claim, grants []store.Grant) []store.Grant {
					if len(claims) == 1 || several.Add(1) > 1 {
						return grants
					}
					waitFor(c.late)
					if errors.Is(c.err, store.ErrNotSent) { // nor has it arrived
						for _, c := range claims {
							d.Whole.Release(t.Context(),
								[]store.Hold{{Name: c.Name, Limit: c.Limit != 0, Owner: c.Owner}})
						}
					}
					if c.err != nil {
						grants = slices.Repeat([]store.Grant{{Err: c.err}}, len(claims))
					}
					return grants
				}
				for _, l := range held {
					require.NoError(t, l.Release(t.Context()))
				}
				for _, c := range callers {
					<-c.got
					require.NoError(t, c.err)
					require.True(t, c.lease.Valid())
					require.NoError(t, c.lease.Release(t.Context()))
				}
				require.Greater(t, several.Load(), int32(1))
			})
		})
	}
}

// A panic of the store leaves neither a caller without its turn nor a slot
// behind.
func TestAPanicInAQuestionForSeveral(t *testing.T) {
	t.Parallel()
	onDistant(t, func(t *testing.T, d *distant, k *renewer.Keeper) {
		held, _ := fill(t, k, 0)
		panicked := background(func() (err error) {
			defer func() { err, _ = recover().(error) }()
			_, err = k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: slots(2)})
			return err
		})
		waitFor(20 * time.Millisecond) // at the front
		two := renewer.Request{Limit: slots(2)}
		callers := []*caller{startAcquire(t, nil, k, two), startAcquire(t, nil, k, two)}
		waitFor(20 * time.Millisecond)
		boom := errors.New("boom")
		var once sync.Once
		d.answer = func(_ []store.Claim, grants []store.Grant) []store.Grant {
			once.Do(func() { panic(boom) })
			return grants
		}
		for _, l := range held {
			require.NoError(t, l.Release(t.Context()))
		}
		require.ErrorIs(t, <-panicked, boom)
		for _, c := range callers {
			<-c.got
			require.NoError(t, c.err)
			require.NoError(t, c.lease.Release(t.Context()))
		}
	})
}

// The number is each caller's own: the front does not ask for one of another
// number.
func TestTheFrontAsksForItsOwnNumber(t *testing.T) {
	t.Parallel()
	onDistant(t, func(t *testing.T, d *distant, k *renewer.Keeper) {
		var waiting []*caller
		var held []*renewer.Lease
		for range 3 {
			held = append(held, acquire(t, k, "a", renewer.Request{Limit: slots(3)}))
		}
		for _, n := range []int{3, 2, 3} {
			waiting = append(waiting, startAcquire(t, nil, k, renewer.Request{Limit: slots(n)}))
			waitFor(20 * time.Millisecond)
		}
		d.answer = func(claims []store.Claim, grants []store.Grant) []store.Grant {
			for _, c := range claims {
				assert.Equal(t, claims[0].Limit, c.Limit)
			}
			return grants
		}
		for _, l := range held {
			require.NoError(t, l.Release(t.Context()))
		}
		for _, c := range waiting {
			<-c.got
			require.NoError(t, c.err)
		}
		for _, c := range waiting {
			require.NoError(t, c.lease.Release(t.Context()))
		}
	})
}

// One who does not wait is refused by the answer to the question of the front.
func TestOneWhoDoesNotWaitIsAskedForToo(t *testing.T) {
	t.Parallel()
	onDistant(t, func(t *testing.T, _ *distant, k *renewer.Keeper) {
		held, waiting := fill(t, k, 1)
		require.NoError(t, held[0].Release(t.Context()))
		<-waiting[0].got
		begun := time.Now()
		front := startAcquire(t, nil, k, renewer.Request{Limit: slots(2)}) // asks
		_, err := k.Acquire(t.Context(), renewer.Request{Name: "a", Limit: slots(2), Try: true})
		require.ErrorIs(t, err, renewer.ErrBusy)
		require.Less(t, time.Since(begun), 10*time.Millisecond)
		require.NoError(t, held[1].Release(t.Context()))
		require.NoError(t, waiting[0].lease.Release(t.Context()))
		<-front.got
		require.NoError(t, front.lease.Release(t.Context()))
	})
}
