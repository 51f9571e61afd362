package fault

import "math/rand/v2"

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
	}
}
