package subscription

import "sync"

// Server is the state of one server, with one channel, without connections.
type Server struct {
	s *server
	w *watch
}

// Link is one connection to it.
type Link = link

// NewServer returns a server with a watch on the channel "a", and a kick that is pending.
func NewServer() *Server {
	w := &watch{hear: func(string, error) {}}
	s := &Server{newServer(&sync.Mutex{}), w}
	c := &channel{}
	c.add(w)
	s.s.want("a", c)
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

// Confirm is the server's confirmation; it returns how many watches are to be woken.
func (s *Server) Confirm(l *Link) int { return len(s.s.heard(l, "a", true)) }

// Publish is a message; it returns how many watches are to hear it.
func (s *Server) Publish(l *Link) int { return len(s.s.heard(l, "a", false)) }

// Withdraw is the end of a subscription by the server.
func (s *Server) Withdraw(l *Link) { s.s.withdraw(l, "a") }

// Rewatch gives the channel up and wants it again.
func (s *Server) Rewatch() {
	c := s.s.channels["a"]
	s.s.drop("a")
	c.live = false
	s.s.want("a", c)
}

// Changes is what is to be done on a connection; unwoken is how many watches are to be woken then.
func (s *Server) Changes(l *Link) (come, gone []string, unwoken int) {
	come, gone, all := s.s.changes(l)
	return come, gone, len(all)
}
