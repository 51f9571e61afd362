// Package storetest proves that a [store.Store] keeps its contract.
// Each implementation's tests call it:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Fixture {
//			return storetest.Fixture{Store: memory.New().Engine()}
//		})
//	}
//
// [Run] works in real time, with TTLs of fractions of a second; its cases run
// in parallel, and a lapse is looked for rather than slept for. [RunInBubble]
// runs each case in testing/synctest, for stores that do no I/O.
//
// Not here, since they need means that only the implementation's own tests
// have: a server that goes away, a reply that gets lost, and that no more is
// sent than needed. Run the suite with -race: some cases prove by it that a
// store lets go of its arguments.
//
// It is test code: no production package may import it.
package storetest
