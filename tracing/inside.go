package tracing

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// keepers are those whose observer this is. They are asked when metrics are
// collected: to note in each acquire when it began would cost every one of
// them.
type keepers struct {
	mu  sync.Mutex
	all []*renewer.Keeper
}

// add notes one more.
func (ks *keepers) add(k *renewer.Keeper) {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.all = append(ks.all, k)
}

// open are those that are not shut down. The others are let go of.
func (ks *keepers) open() []*renewer.Keeper {
	ks.mu.Lock()
	defer ks.mu.Unlock()
	ks.all = slices.DeleteFunc(ks.all, func(k *renewer.Keeper) bool {
		return errors.Is(k.HealthCheck(), renewer.ErrShutdown)
	})
	return slices.Clone(ks.all)
}

// Started notes a keeper, which is asked for the oldest lock and the oldest
// waiter.
func (o *observer) Started(k *renewer.Keeper) { o.keepers.add(k) }

// outageNow is for how long the store has been away that has been so for
// longest.
func (o *observer) outageNow() (longest time.Duration) {
	for _, k := range o.keepers.open() {
		longest = max(longest, k.Outage(""))
	}
	return longest
}

// TasksInLine counts the tasks that stand in line.
func (o *observer) TasksInLine(e renewer.TasksInLine) { o.inLine.Add(int64(e.Change)) }

// oldest is for how long a lock of a series has been held, and a caller has
// waited, at most.
type oldest struct{ hold, wait time.Duration }

// oldestNow is that of each series that has any. Leaders and their stand-bys,
// which go on for as long as they may, are left out; and so are locks that are
// lost, which lockbeat.overrunning counts.
func (o *observer) oldestNow() map[*series]oldest {
	found := make(map[*series]oldest)
	for _, k := range o.keepers.open() {
		for h := range k.Holdings() {
			if h.Lost == nil && !h.LongRunning {
				s := o.seriesOf(h.Operation, h.Limited)
				f := found[s]
				f.hold = max(f.hold, time.Since(h.Since))
				found[s] = f
			}
		}
		for w := range k.Waiting() {
			if !w.LongRunning {
				s := o.seriesOf(w.Operation, w.Limited)
				f := found[s]
				f.wait = max(f.wait, time.Since(w.Since))
				found[s] = f
			}
		}
	}
	return found
}

// seriesOf is that of an operation on locks, or on limits.
func (o *observer) seriesOf(operation string, limited bool) *series {
	if limited {
		return o.limits.of(operation)
	}
	return o.locks.of(operation)
}
