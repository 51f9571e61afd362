package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"
)

// workers are the faults of processes that hold locks.
func workers() []Kind {
	return []Kind{
		{
			Name: "kill-worker", Apart: true,
			New: func(f *Field, dice *rand.Rand) Fault {
				i, who := f.worker(dice)
				return Fault{
					What:   "kill -9 of " + who,
					Inject: func() error { return f.Crew.Kill(i) },
					Heal:   func() error { return f.Crew.Start(i) },
				}
			},
		},
		{
			Name: "stop-worker", Apart: true,
			New: func(f *Field, dice *rand.Rand) Fault {
				i, who := f.worker(dice)
				return Fault{
					What:   "SIGSTOP of " + who,
					Inject: func() error { return f.Crew.Stop(i) },
					Heal:   func() error { return f.Crew.Cont(i) },
				}
			},
		},
		{
			Name: "kill-most", Apart: true,
			New: func(f *Field, dice *rand.Rand) Fault { return f.killMost(dice) },
		},
	}
}

// killMost kills two thirds of the workers at once, which wait or hold locks.
func (f *Field) killMost(dice *rand.Rand) Fault {
	hit := dice.Perm(len(f.Links))[:(2*len(f.Links)+2)/3]
	all := func(do func(i int) error) error {
		var err error
		for _, i := range hit {
			err = errors.Join(err, do(i))
		}
		return err
	}
	return Fault{
		What:   fmt.Sprintf("kill -9 of %d of %d workers", len(hit), len(f.Links)),
		Inject: func() error { return all(f.Crew.Kill) },
		Heal:   func() error { return all(f.Crew.Start) },
	}
}
