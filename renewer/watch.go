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

func nothing() {}
