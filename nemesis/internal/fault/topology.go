package fault

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// topology are changes of who serves what.
func topology() []Kind {
	return []Kind{
		{
			Name: "fail-over", Forgets: true, FailsOver: true,
			Voids: "exclusion, for a TTL: the replica may have missed grants",
			Fits:  func(f *Field) bool { return f.Deployment.Sentinel != nil },
			New: func(f *Field, _ *rand.Rand) Fault {
				return Fault{
					What: "a fail-over", Inject: f.Deployment.Sentinel.Failover,
					Heal: func() error {
						return nil
					},
				}
			},
		},
		{
			Name: "kill-sentinel",
			Fits: func(f *Field) bool { return f.Deployment.Sentinel != nil },
			New: func(f *Field, dice *rand.Rand) Fault {
				i := dice.IntN(len(f.Deployment.Sentinel.Sentinels))
				s := f.Deployment.Sentinel.Sentinels[i]
				return Fault{
					What:   fmt.Sprintf("kill -9 of Sentinel %d", i+1),
					Inject: func() error { s.Kill(); return nil },
					Heal:   s.Restart,
				}
			},
		},
		{
			Name: "slot-moves",
			Fits: func(f *Field) bool { return f.Deployment.Cluster != nil },
			New:  func(f *Field, dice *rand.Rand) Fault { return f.moveSlot(dice) },
		},
	}
}

// moveSlot moves a lock's slot to another server: it is between the two until the fault is healed.
func (f *Field) moveSlot(dice *rand.Rand) Fault {
	cluster := f.Deployment.Cluster
	key := f.Keys[dice.IntN(len(f.Keys))]
	slot := redistest.Slot(key)
	next := 1 + dice.IntN(len(cluster.Masters)-1)
	var move *redistest.Move
	return Fault{
		What: fmt.Sprintf("the slot of %q moves", key),
		Inject: func() error {
			from, err := cluster.Serving(slot)
			if err != nil {
				return err
			}
			for i, s := range cluster.Masters {
				if s == from {
					move, err = cluster.BeginMove(slot,
						cluster.Masters[(i+next)%len(cluster.Masters)])
					return err
				}
			}
			return errors.New("fault: the slot is with none of the servers")
		},
		Heal: func() error {
			if move == nil {
				return nil
			}
			return move.Finish()
		},
	}
}
