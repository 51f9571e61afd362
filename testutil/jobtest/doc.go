// Package jobtest proves that an adapter keeps what package jobs promises: no
// job is lost, runs twice, or uses up an attempt for want of its lock, those in
// line run soon after the lock is free, and where the newest wins it is the one
// that was enqueued last. Each adapter's tests call it:
//
//	func TestAdapter(t *testing.T) {
//		jobtest.Run(t, func(t *testing.T) jobtest.Framework { return newQueue(t) })
//	}
//
// Each case starts a Redis server of its own for the locks: redis-server has to
// be installed. Cases run in parallel, in real time, and take seconds.
//
// It is test code: no production package may import it.
package jobtest
