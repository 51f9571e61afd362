package page

import (
	"errors"
	"net/http"
	"time"
)

const (
	// mostStreams is how many browsers may look at once: the next is answered with 503.
	mostStreams = 256
	// mostSingle is how many locks are kept in mind that no browser looks at any more.
	mostSingle = 256
	// sendWithin is how long sending one event may take, whatever http.Server.WriteTimeout is.
	sendWithin = 15 * time.Second
)

// feedOf is what reads the subject, for all who look at it.
func (p *Page) feedOf(s subject) *feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, known := p.single[s]
	if known {
		return f
	}
	if len(p.single) >= mostSingle {
		for old, f := range p.single {
			if f.idle() {
				delete(p.single, old)
			}
		}
	}
	f = p.newFeed(p.readLock(s))
	p.single[s] = f
	return f
}

// forget has the next one who looks at the subject read the store anew, since it was changed. Those
// who look already stay with the feed that they have.
func (p *Page) forget(s subject) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.single, s)
}

// getEvents streams what is new, of all locks or of the one that is named.
func (p *Page) getEvents(w http.ResponseWriter, r *http.Request) {
	if !sameOrigin(r) {
		p.refuse(w, http.StatusForbidden, "This stream is for the page itself.",
			"Open the page.")
		return
	}
	f := p.list
	if q := r.URL.Query(); q.Has("name") {
		f = p.feedOf(subjectOf(q))
	}
	if !p.countStream(1) {
		p.refuse(w, http.StatusServiceUnavailable, "Too many browsers look at this page.",
			"Close some, and reload.")
		return
	}
	defer p.countStream(-1)

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would keep events back
	if r.Method == http.MethodHead {
		return
	}
	l := f.look()
	defer f.leave(l)
	send := func(event []byte) bool {
		c := http.NewResponseController(w)
		err := c.SetWriteDeadline(time.Now().Add(sendWithin))
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			return false
		}
		if _, err := w.Write(event); err != nil {
			return false
		}
		return c.Flush() == nil
	}
	ok := send([]byte(":\n\n")) // so that the browser knows that it is connected
	for ok {
		select {
		case event, more := <-l.news:
			ok = more && send(event)
		case <-r.Context().Done():
			ok = false
		case <-p.ctx.Done():
			ok = false
		}
	}
}

// countStream counts a stream in or out. It reports false, and counts none, if there are too many.
func (p *Page) countStream(by int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if by > 0 && p.streams >= mostStreams {
		return false
	}
	p.streams += by
	return true
}
