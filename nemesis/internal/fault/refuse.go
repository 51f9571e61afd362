package fault

import (
	"math/rand/v2"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
)

// refusing are faults in which a server answers, and does not do what it is asked.
func refusing() []Kind {
	return []Kind{
		commands("out-of-memory", "", [][]string{{"CONFIG", "SET", "maxmemory", "1"}},
			[][]string{{"CONFIG", "SET", "maxmemory", "0"}}),
		commands("read-only", "", [][]string{{"CONFIG", "SET", "min-replicas-to-write", "5"}},
			[][]string{{"CONFIG", "SET", "min-replicas-to-write", "0"}}),
		commands("rights-narrowed", "", [][]string{{"ACL", "SETUSER", deploy.User, "-pexpire"}},
			[][]string{{"ACL", "SETUSER", deploy.User, "+@all"}}),
		commands("rights-lost", "", [][]string{{"ACL", "SETUSER", deploy.User, "nocommands"}},
			[][]string{{"ACL", "SETUSER", deploy.User, "+@all"}}),
		commands("auth-lost", "",
			[][]string{
				{"ACL", "SETUSER", deploy.User, "off"},
				{"CLIENT", "KILL", "USER", deploy.User},
			},
			[][]string{{"ACL", "SETUSER", deploy.User, "on"}}),
		commands("script-flush", "", [][]string{{"SCRIPT", "FLUSH"}}, nil),
		toSentinels(commands("writes-paused", "", [][]string{{"CLIENT", "PAUSE", "60000", "WRITE"}},
			[][]string{{"CLIENT", "UNPAUSE"}})),
	}
}

// commands is a fault that a server is told to have, on its own connection.
func commands(name, voids string, inject, heal [][]string) Kind {
	return Kind{
		Name: name, Voids: voids, Forgets: voids != "",
		New: func(f *Field, dice *rand.Rand) Fault {
			s, which := f.server(dice)
			tell := func(all [][]string) func() error {
				return func() error {
					for _, args := range all {
						if err := do(s, args...); err != nil {
							return err
						}
					}
					return nil
				}
			}
			return Fault{What: name + " on " + which, Inject: tell(inject), Heal: tell(heal)}
		},
	}
}

const missed = "exclusion with Sentinel, which fails over: the replica may have missed grants"

// toSentinels marks a fault in which a server seems down to Sentinels only: what they
// publish there is a write, and their question whether it is up waits behind that.
func toSentinels(k Kind) Kind {
	k.Hangs, k.Voids = true, missed
	return k
}
