package renewer

import "sync"

// goroutines are those that the engine has started.
type goroutines struct{ sync.WaitGroup }

// run starts one. If an observer or a store ends it, the process ends, as it does by a panic: a
// keeper that ends no lease in time, or renews none, is worse.
func (g *goroutines) run(f func()) {
	g.Go(func() {
		over := false
		defer func() {
			if !over {
				panic("lockbeat: an Observer or a Store has ended a goroutine of the engine, by " +
					"a panic or by runtime.Goexit")
			}
		}()
		f()
		over = true
	})
}
