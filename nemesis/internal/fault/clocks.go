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

// gain is how much clocks gain or lose: just within the drift that a
// keeper allows for, which is shared out between both sides.
const gain = 0.009

// clocks are faults of a server's wall clock. Workers count in
// monotonic time: theirs plays no part.
func clocks() []Kind {
	return []Kind{
		{
			Name: "clock-ahead", Forgets: true, Clock: true,
			Voids: "exclusion, for a TTL: keys lapse early; not in a quorum that is told to " +
				"expect it",
			New: func(f *Field, dice *rand.Rand) Fault { return f.step(dice, steps) },
		},
		{
			Name: "clock-behind", Forgets: true, Clock: true,
			Voids: "exclusion, for a TTL, when it is put right: keys lapse early; not in a " +
				"quorum that is told to expect it",
			New: func(f *Field, dice *rand.Rand) Fault { return f.step(dice, -steps) },
		},
		{
			Name: "clock-rate",
			New: func(f *Field, dice *rand.Rand) Fault {
				hit, which := f.clocksOf(dice)
				rate := gain
				if dice.IntN(2) == 0 {
					rate = -gain
				}
				set := func(rate float64) func() error {
					return func() error {
						return setClocks(hit, func(c clock.Clock) error { return c.Rate(rate) })
					}
				}
				return Fault{
					What:   fmt.Sprintf("the clock of %s gains %.1f %%", which, 100*rate),
					Inject: set(rate), Heal: set(0),
				}
			},
		},
	}
}

// clocksOf picks the servers whose clocks change: one, or, where a replica takes over from its
// primary, both. They would differ for good otherwise, and tokens follow them; a former primary
// that stays up even grants at the same time as the new one.
func (f *Field) clocksOf(dice *rand.Rand) (hit []*redistest.Server, which string) {
	s, which := f.server(dice)
	if f.Deployment.Sentinel != nil {
		return f.Deployment.Servers, "both servers"
	}
	return []*redistest.Server{s}, which
}

// step steps clocks.
func (f *Field) step(dice *rand.Rand, d time.Duration) Fault {
	hit, which := f.clocksOf(dice)
	set := func(d time.Duration) func() error {
		return func() error {
			return setClocks(hit, func(c clock.Clock) error { return c.Step(d) })
		}
	}
	return Fault{
		What:   fmt.Sprintf("the wall clock of %s is stepped by %v", which, d),
		Inject: set(d), Heal: set(-d),
	}
}

func setClocks(servers []*redistest.Server, set func(clock.Clock) error) error {
	var err error
	for _, s := range servers {
		c, of := clock.Of(s)
		if of == nil {
			of = set(c)
		}
		err = errors.Join(err, of)
	}
	return err
}
