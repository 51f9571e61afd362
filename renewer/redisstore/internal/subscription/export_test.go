package subscription

import "sync"

// Server is the state of one server, with one channel, without connections.
type Server struct {
	s *server
	c *channel
}

// Link is one connection to it.
type Link = link

// NewServer returns a server with a watch on the channel "a", and a kick that
// is pending.
func NewServer() *Server {
	w := &watch{hear: func(string, error) {}}
	s := &Server{newServer(&sync.Mutex{}), &channel{}}
	s.c.add(w)
	s.Want()
	return s
}

// Connect begins a connection, and returns what is to be subscribed to on it.
func (s *Server) Connect() (l *Link, come []string) {
	l = &link{subscribed: make(map[string]struct{})}
	s.s.connect(l)
	come, _, _ = s.s.changes(l)
	return l, come
}

// Disconnect ends a connection.
func (s *Server) Disconnect(l *Link) (live bool) { return s.s.disconnect(l) }

// Confirm is the server's confirmation; it returns how many watches are to be
// woken.
func (s *Server) Confirm(l *Link) int { return len(s.s.heard(l, "a", true)) }

// Publish is a message; it returns how many watches are to hear it.
func (s *Server) Publish(l *Link) int { return len(s.s.heard(l, "a", false)) }

// Withdraw is the end of a subscription by the server.
func (s *Server) Withdraw(l *Link) { s.s.withdraw(l, "a") }

// Drop gives the channel up, and Want wants it again.
func (s *Server) Drop() { s.s.drop("a") }

// Want is the opposite of Drop.
func (s *Server) Want() {
	s.c.live = false
	s.s.want("a", s.c)
}

// Changes is what is to be done on a connection: unwoken is how many watches
// are to be woken then, and wasteful whether it is to be replaced.
func (s *Server) Changes(l *Link) (come []string, unwoken int, wasteful bool) {
	come, all, wasteful := s.s.changes(l)
	return come, len(all), wasteful
}

// MostWaste is how much a connection may have of what nobody wants.
const MostWaste = mostWaste

// Forget gives a channel up at once, if it is not watched or its last watch has
// stopped.
func Forget(s *Subscriber, name string) {
	s.mu.Lock()
	c := s.channels[name]
	s.mu.Unlock()
	if c != nil {
		s.forget(name, c)
	}
}
