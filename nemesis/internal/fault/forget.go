package fault

import "math/rand/v2"

const forgotten = "exclusion, for a TTL: what the server forgets, somebody else may have; not in a quorum that is told to expect it"

// forgetting are faults in which a server loses what it has confirmed.
func forgetting() []Kind {
	return []Kind{
		{
			Name: "flushall", Forgets: true, Voids: forgotten,
			New: func(f *Field, dice *rand.Rand) Fault {
				s, which := f.server(dice)
				return Fault{
					What:   "FLUSHALL on " + which,
					Inject: func() error { return writable(s, "FLUSHALL") },
					Heal:   nothing,
				}
			},
		},
	}
}

func nothing() error { return nil }
