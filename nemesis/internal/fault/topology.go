package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// topology are changes of who serves what.
func topology() []Kind {
	return []Kind{
		{
			Name: "fail-over", Forgets: true,
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
		{
			Name: "reshard",
			Fits: func(f *Field) bool { return f.Deployment.Cluster != nil },
			New:  func(f *Field, _ *rand.Rand) Fault { return f.reshard() },
		},
	}
}

// moveSlot moves a lock's slot to another server: it is between the two until the fault is healed.
func (f *Field) moveSlot(dice *rand.Rand) Fault {
	key := f.Keys[dice.IntN(len(f.Keys))]
	next := 1 + dice.IntN(len(f.Deployment.Cluster.Masters)-1)
	var move *redistest.Move
	return Fault{
		What: fmt.Sprintf("the slot of %q moves", key),
		Inject: func() error {
			var err error
			move, err = f.beginMove(key, next)
			return err
		},
		Heal: func() error {
			if move == nil {
				return nil
			}
			return move.Finish()
		},
	}
}

// beginMove begins to move a lock's slot to the server that comes so many behind its own.
func (f *Field) beginMove(key string, next int) (*redistest.Move, error) {
	cluster, slot := f.Deployment.Cluster, redistest.Slot(key)
	from, err := cluster.Serving(slot)
	if err != nil {
		return nil, err
	}
	i := slices.Index(cluster.Masters, from)
	if i < 0 {
		return nil, errors.New("fault: the slot is with none of the servers")
	}
	return cluster.BeginMove(slot, cluster.Masters[(i+next)%len(cluster.Masters)])
}

// moveTime is how long a slot is between two servers while a cluster is resharded, and how long it
// stands still after that.
const moveTime = 100 * time.Millisecond

// reshard moves the slots of all locks, one after another and again and again.
func (f *Field) reshard() Fault {
	ctx, stop := context.WithCancel(context.Background())
	var moving sync.WaitGroup
	var failed error // to be read after moving
	pause := func() bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(moveTime):
			return true
		}
	}
	return Fault{
		What: "the slots of all locks move",
		Inject: func() error {
			moving.Go(func() {
				for i := 0; failed == nil && pause(); i++ {
					move, err := f.beginMove(f.Keys[i%len(f.Keys)], 1)
					if err != nil {
						failed = err
						return
					}
					pause()
					failed = move.Finish()
				}
			})
			return nil
		},
		Heal: func() error {
			stop()
			moving.Wait()
			return failed
		},
	}
}
