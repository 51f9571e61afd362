package renewer

// run starts one of the engine's goroutines. If an observer or a store ends it, the process ends,
// as it does by a panic: a keeper that ends no lease in time, or renews none, is worse.
func (k *Keeper) run(loop func()) {
	k.loops.Go(func() {
		over := false
		defer func() {
			if !over {
				panic("lockbeat: an Observer or a Store has ended a goroutine of the engine, by " +
					"a panic or by runtime.Goexit")
			}
		}()
		loop()
		over = true
	})
}
