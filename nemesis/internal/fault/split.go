package fault

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// splits are the hardest that can happen to a quorum: half of the workers reach one bare majority
// of servers and the other half another, and the one server that both have keeps forgetting.
func splits() []Kind {
	return []Kind{{
		Name: "split-forget", Forgets: true, Voids: forgotten,
		Fits: func(f *Field) bool { return f.Deployment.Quorum },
		New:  func(f *Field, _ *rand.Rand) Fault { return f.split() },
	}}
}

// forgetEvery is short beside the time between two heartbeats.
const forgetEvery = 50 * time.Millisecond

func (f *Field) split() Fault {
	servers := f.Deployment.Servers
	middle := servers[len(servers)/2]
	forgetting, stop := context.WithCancel(context.Background())
	var flushing sync.WaitGroup
	var failed error // to be read after flushing
	return Fault{
		What: "half of the workers cut off from the first servers, half from the last, and the " +
			"one between forgets",
		Inject: func() error {
			for i, links := range f.Links {
				cut := links[:len(links)/2]
				if i%2 == 0 {
					cut = links[len(links)/2+1:]
				}
				for _, p := range cut {
					p.Refuse(true)
					p.Reset()
				}
			}
			flushing.Go(func() {
				for {
					select {
					case <-forgetting.Done():
						return
					case <-time.After(forgetEvery):
						failed = errors.Join(failed, do(middle, "FLUSHALL"))
					}
				}
			})
			return nil
		},
		Heal: func() error {
			stop()
			flushing.Wait()
			for _, links := range f.Links {
				for _, p := range links {
					p.Refuse(false)
				}
			}
			return failed
		},
	}
}
