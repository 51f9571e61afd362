package fault

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
)

const forgotten = "exclusion, for a TTL: what the server forgets, another owner may have"

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
					Heal:   func() error { return nil },
				}
			},
		},
		commands("eviction", forgotten,
			[][]string{{"CONFIG", "SET", "maxmemory-policy", "allkeys-random", "maxmemory", "1"}},
			[][]string{{"CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "0"}}),
		{
			Name: "restart-empty", Forgets: true, Hangs: true, Voids: forgotten,
			New: func(f *Field, dice *rand.Rand) Fault {
				s, which := f.server(dice)
				var files string
				return Fault{
					What: "a restart of " + which + " without its data",
					Inject: func() error {
						reply, err := s.Do("CONFIG", "GET", "dir", "appenddirname").AsStrMap()
						s.Kill()
						if err != nil {
							return err
						}
						if reply["dir"] == "" || reply["appenddirname"] == "" {
							return errors.New("fault: the server does not tell where its data are")
						}
						files = filepath.Join(reply["dir"], reply["appenddirname"])
						return nil
					},
					Heal: func() error {
						if err := os.RemoveAll(files); err != nil {
							return err
						}
						return s.Restart()
					},
				}
			},
		},
	}
}
