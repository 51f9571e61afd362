package campaign

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/fault"
	"github.com/lockbeat/lockbeat/nemesis/internal/history"
)

// nemesis injects faults, alone and in pairs. What it does, and to whom, depends on
// the seed alone; when exactly depends on how long the deployment takes to heal.
type nemesis struct {
	field *fault.Field
	early []fault.Kind // for the first two thirds
	late  []fault.Kind // for the rest
	seed  uint64
	say   func(string, ...any)

	injected int
	free     time.Time // when the next fault that forgets may come

	mu      sync.Mutex // guards what follows
	excused []history.Window
}

// divide says which kinds come early and which late. If all that was
// asked for belongs to one part, that is all there is.
func (n *nemesis) divide(kinds []fault.Kind) {
	for _, k := range kinds {
		if !k.Clock {
			n.early = append(n.early, k)
		}
		if k.Clock || !k.VoidsExclusion(n.field.Deployment) && !k.Forgets {
			n.late = append(n.late, k)
		}
	}
	if n.early == nil {
		n.early = n.late
	}
	if n.late == nil {
		n.late = n.early
	}
}

// strike is one step of the plan.
type strike struct {
	kinds  []fault.Kind
	faults []fault.Fault
	hold   time.Duration
	rest   time.Duration
}

// plan makes a step of a seed. Faults that forget come before those
// that step a clock: tokens follow a clock where their counter is
// forgotten, and so do not rise while it has to catch up with itself.
func (n *nemesis) plan(step uint64, late bool) strike {
	kinds := n.early
	if late {
		kinds = n.late
	}
	dice := rand.New(rand.NewPCG(n.seed, step)) //nolint:gosec // faults, not secrets
	ttl := n.field.TTL
	s := strike{
		hold: ttl/5 + time.Duration(dice.Int64N(int64(ttl+ttl/2))),
		rest: ttl/5 + time.Duration(dice.Int64N(int64(ttl/2))),
	}
	count := 1
	if dice.IntN(3) == 0 {
		count = 2
	}
	for range count {
		k := kinds[dice.IntN(len(kinds))]
		f := k.New(n.field, dice)
		if !s.fits(k) {
			continue
		}
		s.kinds, s.faults = append(s.kinds, k), append(s.faults, f)
	}
	return s
}

// fits reports whether a fault goes with those that there are: of the same twice
// one would heal the other, a server that is down can't be made to fail
// otherwise, and of two that forget at the same time a quorum promises nothing.
func (s *strike) fits(k fault.Kind) bool {
	for _, other := range s.kinds {
		if other.Name == k.Name || !other.Apart && !k.Apart {
			return false
		}
	}
	return true
}

// run strikes until ctx ends, which has a deadline.
func (n *nemesis) run(ctx context.Context) error {
	begun := time.Now()
	deadline, _ := ctx.Deadline()
	for step := uint64(0); ; step++ {
		s := n.plan(step, time.Since(begun) > deadline.Sub(begun)*2/3)
		if slices.ContainsFunc(s.kinds, func(k fault.Kind) bool { return k.Forgets }) &&
			!wait(ctx, time.Until(n.free)) {
			return nil
		}
		if err := n.strike(ctx, s); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
		if !wait(ctx, s.rest) {
			return nil
		}
	}
}

// strike injects the faults of a step, lets them be, and heals them.
func (n *nemesis) strike(ctx context.Context, s strike) error {
	window := history.Window{From: history.Now()}
	var err error
	forgets := false
	for i, f := range s.faults {
		n.say("%s", f.What)
		err = errors.Join(err, f.Inject())
		n.injected++
		forgets = forgets || s.kinds[i].Forgets
		if s.kinds[i].VoidsExclusion(n.field.Deployment) {
			window.What = f.What
		}
	}
	wait(ctx, s.hold)
	for _, f := range slices.Backward(s.faults) {
		err = errors.Join(err, f.Heal())
	}
	err = errors.Join(err, n.field.Deployment.AwaitWhole())
	if window.What != "" {
		// Who has lost a lock hears of it at the next heartbeat, or when the TTL is over.
		window.To = history.Now() + int64(n.field.TTL)
		n.excuse(window)
	}
	if forgets {
		n.free = time.Now().Add(n.field.TTL + n.field.TTL/2)
	}
	return err
}

func (n *nemesis) excuse(w history.Window) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.excused = append(n.excused, w)
}

// Around the instant at which Sentinels name another primary.
const (
	promotedBefore = time.Second     // the replica is promoted before they name it
	demotedAfter   = 3 * time.Second // the former primary grants locks until it is demoted
)

// watch excuses fail-overs that no fault was meant to bring about, until ctx ends.
func (n *nemesis) watch(ctx context.Context) {
	n.field.Deployment.WatchFailOvers(ctx, func() {
		n.say("the Sentinels have failed over")
		now := history.Now()
		n.excuse(history.Window{
			From: now - int64(promotedBefore), To: now + int64(demotedAfter+n.field.TTL),
			What: "a fail-over",
		})
	})
}

// wait lets d go by, and reports whether ctx still lives.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
