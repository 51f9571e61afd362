package subscription

import (
	"slices"
	"sync/atomic"
	"time"
)

// channel is a channel that is watched, or was a moment ago.
type channel struct {
	addr    string      // of the server that it is subscribed to on; see Subscriber.servers
	watches []*watch    // replaced, never changed, so that it can be walked without the mutex
	live    bool        // the server has confirmed the subscription on the present connection
	heard   int         // messages for this process, and confirmations
	marked  int         // heard at the last Subscriber.Mark
	lingers *time.Timer // has it forgotten; nil while there are watches
}

// add adds a watch, and reports whether it may have missed a message, so that
// it must be woken. Before the subscription is live it can't have: its
// confirmation will wake it.
func (c *channel) add(w *watch) (missed bool) {
	if c.lingers != nil {
		c.lingers.Stop()
		c.lingers = nil
	}
	c.watches = append(slices.Clone(c.watches), w)
	return c.live && c.marked != c.heard
}

// remove removes a watch, and reports whether it was the last.
func (c *channel) remove(w *watch) (last bool) {
	c.watches = slices.DeleteFunc(slices.Clone(c.watches), func(o *watch) bool { return o == w })
	return len(c.watches) == 0
}

// watch is one caller who wants to be woken.
type watch struct {
	hear    func(message string, err error)
	stopped atomic.Bool
	told    atomic.Bool // has heard an error since its last wake-up, and needs no second
}

func (w *watch) call(message string, err error) {
	if w.stopped.Load() {
		return
	}
	if w.told.Swap(err != nil) && err != nil {
		return
	}
	w.hear(message, err)
}

// tellAll has watches hear a message, or "" if they may have missed one.
func tellAll(watches []*watch, message string) {
	for _, w := range watches {
		w.call(message, nil)
	}
}
