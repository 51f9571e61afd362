package page

import (
	"errors"
	"net/http"
	"time"
)

// sendWithin is how long sending one event may take, whatever
// http.Server.WriteTimeout is.
const sendWithin = 15 * time.Second

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
	client := clientOf(r)
	if !p.openStream(client) {
		p.refuseCrowded(w)
		return
	}
	defer p.closeStream(client)

	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would keep events back
	if r.Method == http.MethodHead {
		return
	}
	f, l := p.look(s, client, true)
	if f == nil {
		p.refuseCrowded(w)
		return
	}
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

// openStream counts a stream in. It reports false, and counts none, if there
// are too many.
func (p *Page) openStream(client string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.streams.take(client)
}

func (p *Page) closeStream(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams.leave(client)
}
