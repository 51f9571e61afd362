package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/clock"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// steps is how far wall clocks are stepped.
const steps = 30 * time.Second

// gain is how much clocks gain or lose: just within the drift that a keeper allows for, which is shared out between both sides.
const gain = 0.009

// clocks are faults of a server's wall clock. Workers count in monotonic time: theirs plays no part.
func clocks() []Kind {
	return []Kind{
		{
			Name: "clock-ahead", Forgets: true, Clock: true,
			Voids: "exclusion, for a TTL: keys lapse early; not in a quorum that is told to expect it",
			New:   func(f *Field, dice *rand.Rand) Fault { return f.step(dice, steps) },
		},
		{
			Name: "clock-behind", Forgets: true, Clock: true,
			Voids: "exclusion, for a TTL, when it is put right: keys lapse early; not in a quorum that is told to expect it",
			New:   func(f *Field, dice *rand.Rand) Fault { return f.step(dice, -steps) },
		},
		{
			Name: "clock-rate",
			New: func(f *Field, dice *rand.Rand) Fault {
				s, which := f.server(dice)
				rate := gain
				if dice.IntN(2) == 0 {
					rate = -gain
				}
				set := func(rate float64) func() error {
					return func() error { return setClock(s, func(c clock.Clock) error { return c.Rate(rate) }) }
				}
				return Fault{
					What: fmt.Sprintf("the clock of %s gains %.1f %%", which, 100*rate), Inject: set(rate), Heal: set(0),
				}
			},
		},
	}
}

// step steps one clock, or, where a replica takes over from its primary, both: they would differ otherwise, and tokens follow them.
func (f *Field) step(dice *rand.Rand, d time.Duration) Fault {
	s, which := f.server(dice)
	hit := []*redistest.Server{s}
	if f.Deployment.Sentinel != nil {
		hit, which = f.Deployment.Servers, "both servers"
	}
	set := func(d time.Duration) func() error {
		return func() error {
			var err error
			for _, s := range hit {
				err = errors.Join(err, setClock(s, func(c clock.Clock) error { return c.Step(d) }))
			}
			return err
		}
	}
	return Fault{What: fmt.Sprintf("the wall clock of %s is stepped by %v", which, d), Inject: set(d), Heal: set(-d)}
}

func setClock(s *redistest.Server, set func(clock.Clock) error) error {
	c, err := clock.Of(s)
	if err != nil {
		return err
	}
	return set(c)
}
