package page

import (
	"errors"
	"net/http"
	"time"
)

const (
	// mostStreams is how many browsers may look at once: the next is answered with 503.
	mostStreams = 256
	// sendWithin is how long sending one event may take, whatever http.Server.WriteTimeout is.
	sendWithin = 15 * time.Second
)

// getEvents streams what is new, of all locks or of the one that is named.
func (p *Page) getEvents(w http.ResponseWriter, r *http.Request) {
	if !sameOrigin(r) {
		p.refuse(w, http.StatusForbidden, "This stream is for the page itself.",
			"Open the page.")
		return
	}
	s := all
	if r.URL.Query().Has("name") {
		var ok bool
		if s, ok = p.named(w, r); !ok {
			return
		}
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
	f, l := p.look(s)
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
			ok = more && send(event())
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
