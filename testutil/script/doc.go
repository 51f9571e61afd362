// Package script is a [store.Store] that answers by a script, at the instant
// that the script says: for tests of a renewal that fails, hangs, comes late,
// or finds the lock gone.
//
//	store := script.New()
//	store.Script(script.Renew,
//		script.Fail(errors.New("connection refused")), // the first renewal fails,
//		script.Pass().Late(2*time.Second),             // the second is confirmed 2 s later,
//		script.Hang())                                 // the third is never answered
//
// A script is a list of steps for each operation. One call takes one step,
// whatever the size of its batch. When the list is used up, calls take the
// default step, [Pass], which answers from a plain store in memory. That store
// follows the script: a lease granted by a step can be renewed by Pass, and one
// that a step calls gone is gone.
//
// There is no I/O and no goroutine that outlives a call, and time is time.Now's
// and time.NewTimer's, so inside testing/synctest every instant is exact. Calls
// are recorded with their time: see [Store.Calls]. docs/testing.md of this
// module shows tests of handlers with it.
//
// It is test code: no production package may import it.
package script
