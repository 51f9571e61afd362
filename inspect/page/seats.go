package page

import (
	"net"
	"net/http"
)

const (
	// mostSeats is how many browsers may look at once, and how many locks are
	// read by themselves: what is beyond is answered with 503.
	mostSeats = 256
	// mostEach is how many of these one client may have, so that it leaves some
	// to others. Behind a proxy all clients are one.
	mostEach = mostSeats / 2
)

// crowded is why what is beyond that is not shown.
var crowded = &fault{
	Title: "Too many look at this page.", Advice: "Close some, and reload it in a moment.",
	status: http.StatusServiceUnavailable,
}

func (p *Page) refuseCrowded(w http.ResponseWriter) {
	p.show(w, crowded.status, "refused.html", refusal{fault: crowded})
}

// seats counts what clients have. Page.mu guards it.
type seats struct {
	all  int
	each map[string]int
}

// take counts one in. It reports false, and counts none, if there are too many.
func (s *seats) take(client string) bool {
	if s.all >= mostSeats || s.each[client] >= mostEach {
		return false
	}
	if s.each == nil {
		s.each = make(map[string]int)
	}
	s.all++
	s.each[client]++
	return true
}

// leave counts one out.
func (s *seats) leave(client string) {
	s.all--
	s.each[client]--
	if s.each[client] == 0 {
		delete(s.each, client)
	}
}

// clientOf is where a request comes from.
func clientOf(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}
