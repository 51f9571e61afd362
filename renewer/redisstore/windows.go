package redisstore

import "sync"

// How many locks one process asks a server for at the same time, or frees, or how many records it
// reads and writes: each kind has a window of its own, and heartbeats have none. All go over one
// connection, so that a heartbeat waits for whatever was put on it before. So many take the server
// some milliseconds; a crowd of 100,000 callers, each of whom sends at once, would take longer than
// a heartbeat may. Those who wait for their turn gather meanwhile, and share commands.
const (
	// mostUnderWay is for callers who share commands. It keeps a server busy that is 10 ms away.
	mostUnderWay = 1024
	// mostAlone is for locks of which each has a command of its own, as on a cluster. All kinds
	// together leave the client room for heartbeats: it has at most 1,024 commands unanswered.
	mostAlone = 256
)

// windows are those to the servers of a store, by shard, so that one that does not answer holds up
// no other's.
type windows struct {
	most    int
	byShard sync.Map // of *window
}

func (w *windows) of(shard int) *window {
	one, ok := w.byShard.Load(shard)
	if !ok {
		one, _ = w.byShard.LoadOrStore(shard, newWindow(w.most))
	}
	return one.(*window) //nolint:forcetypeassert // nothing else is in it
}
