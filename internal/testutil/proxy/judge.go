package proxy

// verdict is what becomes of a frame.
type verdict uint8

const (
	pass verdict = iota
	drop
	dropAndReset
)

// victim is the reply to the nth request of a connection.
type victim struct {
	nth  int
	then Then
}

// request judges what goes up: it always passes, but its reply may be singled
// out.
func (c *conn) request(frame []byte, f *faults) verdict {
	if !subscribes(frame) {
		c.asked++
	}
	// One victim is enough for a connection, since nothing comes after it.
	if r := f.drop; r != nil && r.to != nil && !c.mute.Load() && c.victim.Load() == nil &&
		r.to(frame) && c.p.spend(r) {
		c.victim.Store(&victim{nth: c.asked, then: r.then})
	}
	return pass
}

// reply judges what comes down.
func (c *conn) reply(frame []byte, f *faults) verdict {
	if c.mute.Load() {
		return drop
	}
	push := isPush(frame)
	if !push {
		c.answered++
	}
	if f.matching != nil && f.matching(frame) {
		c.p.countDropped()
		return drop
	}
	if push {
		return pass
	}
	v := c.victim.Load()
	if r := f.drop; v == nil && r != nil && r.to == nil && c.p.spend(r) {
		v = &victim{nth: c.answered, then: r.then}
	}
	if v == nil || c.answered < v.nth {
		return pass
	}
	c.p.countDropped()
	c.mute.Store(true)
	if v.then == ThenReset {
		return dropAndReset
	}
	return drop
}
