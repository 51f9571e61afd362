// Package jobtest proves that an adapter of package jobs keeps what that promises: no job is lost,
// runs twice, or uses up an attempt for want of its lock, and none waits longer than it must. Each
// adapter's tests call it:
//
//	func TestAdapter(t *testing.T) {
//		jobtest.Run(t, func(t *testing.T) jobtest.Framework { return newQueue(t) })
//	}
//
// The locks are in a private Redis server that a case starts for itself, so that redis-server has
// to be installed. Cases run in parallel, in real time; none takes more than some seconds.
//
// It is test code: no production package may import it.
package jobtest
