package renewer_test

import (
	"context"
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
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A lease that was broken is lost at the answer that says so, and its key is
// freed when the operation has returned, before Release returns. By force it
// was freed before.
func TestABrokenLease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken   *store.Broken
		reason   renewer.Reason
		text     string
		releases int
		left     bool
	}{
		"broken": {
			&store.Broken{By: "alice", Why: "hangs"}, renewer.ReasonBroken,
			`lockbeat: lease on "a" lost: it was broken by alice: hangs`, 1, true,
		},
		"by force": {
			&store.Broken{By: "alice", Why: "hangs", Force: true}, renewer.ReasonBroken,
			`lockbeat: lease on "a" lost: it was broken, by force, by alice: hangs`, 0, false,
		},
		"by whom is not known": {
			nil, renewer.ReasonBroken, `lockbeat: lease on "a" lost: it was broken`, 1, true,
		},
		"replaced": {
			&store.Broken{By: "web-2 pid 7", Replaced: true}, renewer.ReasonReplaced,
			`lockbeat: lease on "a" lost: a newer call has taken its place: web-2 pid 7`, 1, true,
		},
	} {
		for each, release := range map[string]func(*renewer.Keeper, *renewer.Lease) error{
			"Release": func(_ *renewer.Keeper, l *renewer.Lease) error {
				return l.Release(t.Context())
			},
			"ReleaseEach": func(k *renewer.Keeper, l *renewer.Lease) error {
				return k.ReleaseEach(t.Context(), []*renewer.Lease{l}, false)[0]
			},
		} {
			t.Run(name+", "+each, func(t *testing.T) {
				t.Parallel()
				inBubble(t, config, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
					s.Script(script.Renew, script.Pass(), script.BrokenBy(c.broken))
					l := acquire(t, k, "a")
					at, lost := lostAt(t, l)
					assertInstant(t, s.Calls(script.Renew)[1].At, at, "at the answer")
					assert.Equal(t, c.reason, lost.Reason)
					assert.Equal(t, c.text, lost.Error())
					assert.Equal(t, c.left, lost.Left > 0, "so long the key is its own still")
					waitFor(time.Second)
					assert.Empty(t, s.Calls(script.Release), "its operation has not returned")
					require.Equal(t, error(lost), release(k, l))
					assert.Len(t, s.Calls(script.Release), c.releases)
				})
			})
		}
	}
}

// told is a store that passes on the messages of a test.
type told struct {
	*script.Store

	look chan func(name string, limit bool)
}

func (s told) Engine() store.Store { return s }

func (s told) Break(context.Context, store.Breaking) store.Answer { panic("not asked") }

func (s told) OnBreak(holder store.Holder, look func(string, bool)) (stop func()) {
	s.look <- look
	return func() {}
}

// A user who may publish can send messages that a lease was broken. They cause
// few renewals, and put off none.
func TestAFloodOfMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := told{script.New(), make(chan func(string, bool), 1)}
		k, err := renewer.New(s, config)
		require.NoError(t, err)
		l := acquire(t, k, "a")
		look := <-s.look // at its first heartbeat
		before := len(s.Calls(script.Renew))
		for range 20_000 {
			look("a", false)
			waitFor(time.Millisecond)
		}
		renewals := len(s.Calls(script.Renew)) - before
		assert.Greater(t, renewals, 6, "as many as without")
		assert.LessOrEqual(t, renewals, 200, "ten in a second")
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// A look renews a lease early, and the next heartbeats come no later for it:
// many looks in a row lose none.
func TestLooksPutOffNoHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := told{script.New(), make(chan func(string, bool), 1)}
		k, err := renewer.New(s, config)
		require.NoError(t, err)
		l := acquire(t, k, "a")
		look := <-s.look
		for range 10 {
			look("a", false)
			waitFor(200 * time.Millisecond)
		}
		waitFor(time.Hour)
		require.NoError(t, l.Err())
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// A lease without a heartbeat hears of a break too, and is not made longer for
// it.
func TestABrokenManualLease(t *testing.T) {
	t.Parallel()
	onMemory(t, config, func(t *testing.T, s *inMemory, k *renewer.Keeper) {
		l := acquire(t, k, "a", renewer.Request{Manual: 5 * time.Second})
		waitFor(time.Second)
		answer := s.Break(t.Context(), store.Breaking{
			Name: "a", Fence: l.Fence(), Broken: store.Broken{By: "alice", Why: "hangs"},
		})
		require.Equal(t, store.StatusHeld, answer.Status)
		begun := time.Now()
		at, lost := lostAt(t, l)
		assertInstant(t, begun, at, "at once")
		assert.Equal(t, renewer.ReasonBroken, lost.Reason)
		shown, err := s.Show(t.Context(), "a", false)
		require.NoError(t, err)
		assert.LessOrEqual(t, shown.Slots[0].TTL, 4*time.Second)
		require.Error(t, l.Release(t.Context()))
	})
}

// A message of a limit that came in a keeper's first 10 ms was dropped, as if it
// followed too soon on another: one without a heartbeat heard of no break then.
func TestABreakInAKeepersFirstMoment(t *testing.T) {
	t.Parallel()
	onMemory(t, config, func(t *testing.T, s *inMemory, k *renewer.Keeper) {
		l := acquire(t, k, "a", renewer.Request{
			Manual: 5 * time.Second, Limit: func() int { return 2 },
		})
		answer := s.Break(t.Context(), store.Breaking{
			Name: "a", Limit: true, Fence: l.Fence(), Broken: store.Broken{By: "alice", Why: "hangs"},
		})
		require.Equal(t, store.StatusHeld, answer.Status)
		begun := time.Now()
		at, lost := lostAt(t, l)
		assertInstant(t, begun, at, "at once")
		assert.Equal(t, renewer.ReasonBroken, lost.Reason)
		require.Error(t, l.Release(t.Context()))
	})
}

// listeners is a store that counts who listens.
type listeners struct {
	engine.Whole

	listening atomic.Int32
}

func (s *listeners) Engine() store.Store { return s }

func (s *listeners) OnBreak(holder store.Holder, look func(string, bool)) (stop func()) {
	s.listening.Add(1)
	end := s.Whole.OnBreak(holder, look)
	return func() {
		s.listening.Add(-1)
		end()
	}
}

// A lease is told of its end within a second of its beginning, though its first
// heartbeat is later: that it was broken before its process listens, too. A
// process whose leases are over sooner does not listen, and one that does
// renews no lease more than once for that.
func TestAYoungLeaseIsTold(t *testing.T) {
	t.Parallel()
	for name, after := range map[string]time.Duration{
		"broken at once": 0, "a moment before it listens": 999 * time.Millisecond,
		"a moment after": 1001 * time.Millisecond, "later": 1400 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &listeners{Whole: engine.In(memory.New())}
				k, err := renewer.New(s, config) // the first heartbeat comes after 1.5 s at the least
				require.NoError(t, err)
				for range 10 {
					short := acquire(t, k, "short")
					waitFor(time.Second / 2)
					require.NoError(t, short.Release(t.Context()))
				}
				assert.Zero(t, s.listening.Load(), "nothing lives long enough")
				l := acquire(t, k, "a")
				begun := time.Now()
				waitFor(after)
				answer := s.Break(t.Context(), store.Breaking{
					Name: "a", Fence: l.Fence(), Broken: store.Broken{By: "alice", Why: "hangs"},
				})
				require.Equal(t, store.StatusHeld, answer.Status)
				at, lost := lostAt(t, l)
				assert.WithinDuration(t, begun.Add(max(after, time.Second)), at, 150*time.Millisecond)
				assert.Equal(t, renewer.ReasonBroken, lost.Reason)
				assert.EqualValues(t, 1, s.listening.Load())
				require.Error(t, l.Release(t.Context()))
				require.NoError(t, k.Shutdown(t.Context()))
				assert.Zero(t, s.listening.Load())
			})
		})
	}
}
