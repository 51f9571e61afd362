package history

// Window is a time in which a fault was at work.
type Window struct {
	From, To int64
	What     string
	// FailOver: what was at work was a fail-over, and nothing that makes a server forget.
	FailOver bool
	// Refused is from when the former primary refused to write; 0 if that is not known.
	Refused int64
}

// touches reports whether the window and an interval share an instant.
func (w Window) touches(from, to int64) bool { return w.From <= to && from <= w.To }

// excuse returns the window that touches an interval.
func excuse(windows []Window, from, to int64) (Window, bool) {
	for _, w := range windows {
		if w.touches(from, to) {
			return w, true
		}
	}
	return Window{}, false
}
