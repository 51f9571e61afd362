package fault

import "math/rand/v2"

// servers are faults of a server that remembers what it has confirmed.
func servers() []Kind {
	return []Kind{
		{
			Name: "kill-server", Hangs: true,
			Voids: missed,
			New: func(f *Field, dice *rand.Rand) Fault {
				s, which := f.server(dice)
				return Fault{
					What:   "kill -9 of " + which,
					Inject: func() error { s.Kill(); return nil },
					Heal:   s.Restart,
				}
			},
		},
		{
			Name: "stop-server", Hangs: true,
			Voids: missed,
			New: func(f *Field, dice *rand.Rand) Fault {
				s, which := f.server(dice)
				return Fault{What: "SIGSTOP of " + which, Inject: s.Stop, Heal: s.Cont}
			},
		},
	}
}
