package wire

import "context"

// GroupFrom is from how many callers on they share commands.
const GroupFrom = groupFrom

// NewWindow makes a window.
var NewWindow = newWindow

func (w *Window) Enter(ctx context.Context, items int) error { return w.enter(ctx, items) }
func (w *Window) Leave(items int)                            { w.leave(items) }

// Ask asks one question, through a window that has room.
func (c *Coalescer[Q, A]) Ask(ctx context.Context, question []Q) []A {
	return c.Do(ctx, newWindow(MostUnderWay), question)
}

// NewCheck returns what looks at the replies of a new connection.
func NewCheck() func([]byte) error { return new(lengths).check }
