package wire

import (
	"sync/atomic"
	"time"
)

// The request of a lone caller goes directly, and so do those of two who meet: each by a connection
// of the client's pool, which the caller's own goroutine writes and reads. On the connection that
// all share, which is for requests that travel together and for heartbeats, it would pass through
// two more goroutines. All connections are the client's: it alone says which server is the primary.
//
// rueidis gives a direct request up at its context's deadline or after ConnWriteTimeout, and does
// not hear that the context is cancelled before.
//
// Requests on two connections may reach the server in another order than they were sent. It matters
// for none: a caller asks for the next when the one before was answered; a heartbeat renews for the
// owner only; and behind an acquire that was not answered the engine cleans up three times: at
// once, 5 ms later, as that may have overtaken it, and when it can't take effect any longer.

const (
	// directMost is how many requests may go directly at once. More callers share commands, which
	// takes less of the processors.
	directMost = 2
	// warmUp is how many requests in a row must not have met directMost others, for the next to go
	// directly, without a pause of freshFor. So no caller who comes now and then waits for a dial,
	// or meets a connection that has ended meanwhile.
	warmUp   = 16
	freshFor = time.Second
)

// direct counts the requests that could go directly.
type direct struct {
	active atomic.Int32 // under way
	alone  atomic.Int32 // how many in a row have not met directMost others, up to warmUp
	last   atomic.Int64 // when the latest was made, by the clock on the wall in ns
}

// begin counts a request in, and reports whether it is to go directly. end must follow.
func (d *direct) begin() bool {
	now := time.Now().UnixNano()
	paused := now-d.last.Swap(now) > int64(freshFor)
	if d.active.Add(1) > directMost || paused {
		d.alone.Store(0)
		return false
	}
	if d.alone.Load() == warmUp {
		return true
	}
	d.alone.Add(1)
	return false
}

func (d *direct) end() { d.active.Add(-1) }
