package renewer

// watch is how the head of a queue hears from the store that its name may be free. It outlives the
// head, for its successor. wake and falseWakes are the head's; the rest is guarded by Keeper.mu.
type watch struct {
	wake       chan struct{} // a wake-up that has not been read; made when the watch begins
	falseWakes falseWakes
	on         bool
	stop       func() // nil unless the store watches
}

// begin reports whether the caller is to have the store watch: no other has.
func (w *watch) begin() bool {
	if w.on {
		return false
	}
	w.on = true
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	return true
}

// end returns what ends the watch at the store, to be called without the lock.
func (w *watch) end() (stop func()) {
	stop, w.stop, w.on = w.stop, nil, false
	if stop == nil {
		return nothing
	}
	return stop
}

// see notes what the store answered while the lock was not ours, refuses those behind who do not
// wait, and has the store watch the name.
func (c *call) see(info holderInfo) {
	c.seen = info
	k := c.k
	k.mu.Lock()
	q := k.queues.of(c.l.name)
	if q == nil && !c.request.try {
		q = k.queues.need(c.l.name)
	}
	if q == nil { // no caller waits, nor will this one
		k.mu.Unlock()
		return
	}
	q.seen = info
	refused := q.removeTries()
	watches := !c.request.try && info.err == nil && q.watch.begin()
	k.mu.Unlock()
	refuseAll(refused, info)
	if watches {
		k.watch(c.l.name, &q.watch)
	}
}

// watch has the store watch a name, until [watch.end]. If the store panics, the next head tries
// again.
func (k *Keeper) watch(name string, w *watch) {
	var stop func() // nil after a panic
	defer func() {
		k.mu.Lock()
		w.stop, w.on = stop, stop != nil
		k.mu.Unlock()
	}()
	wake := w.wake
	stop = k.store.Watch(name, func(err error) {
		if err != nil {
			k.fault("watch", name, err)
			return
		}
		select {
		case wake <- struct{}{}:
		default:
		}
	})
}

// watch is the watch of the caller's queue, nil while it has none.
func (c *call) watch() *watch {
	c.k.mu.Lock()
	defer c.k.mu.Unlock()
	if q := c.k.queues.of(c.l.name); q != nil {
		return &q.watch
	}
	return nil
}
