package resource

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
)

// Server holds the counters. Its methods may be called concurrently.
type Server struct {
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	conns    map[net.Conn]struct{}
	closed   bool
	counters map[string]*counter
	refused  []history.Refusal
}

type counter struct {
	value    int64
	accepted int64 // increments
	highest  int64 // fencing token
}

// Listen starts a server on a Unix socket. The caller must Close it.
func Listen(path string) (*Server, error) {
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("resource: %w", err)
	}
	s := &Server{
		listener: listener, conns: make(map[net.Conn]struct{}),
		counters: make(map[string]*counter),
	}
	s.running.Go(s.accept)
	return s, nil
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = conn.Close()
			return
		}
		s.conns[conn] = struct{}{}
		s.mu.Unlock()
		s.running.Go(func() { s.serve(conn) })
	}
}

// serve answers one client's lines until it goes.
func (s *Server) serve(conn net.Conn) {
	defer func() {
		_ = conn.Close()
		s.mu.Lock()
		delete(s.conns, conn)
		s.mu.Unlock()
	}()
	for in := bufio.NewScanner(conn); in.Scan(); {
		var q query
		if _, err := fmt.Sscanf(in.Text(), queryFormat, &q.verb, &q.name, &q.token,
			&q.value); err != nil {
			return
		}
		a := s.answer(q)
		if _, err := fmt.Fprintf(conn, answerFormat+"\n", a.ok, a.value); err != nil {
			return
		}
	}
}

// The lines of the two sides.
const (
	queryFormat  = "%s %s %d %d"
	answerFormat = "%t %d"
	verbRead     = "read"
	verbWrite    = "write"
)

type query struct {
	verb, name   string
	token, value int64
}

type answer struct {
	ok    bool
	value int64 // the counter's, or the highest token if it was refused
}

func (s *Server) answer(q query) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.counters[q.name]
	if c == nil {
		c = new(counter)
		s.counters[q.name] = c
	}
	if q.token < c.highest {
		s.refused = append(s.refused,
			history.Refusal{At: history.Now(), Name: q.name, Token: q.token, Highest: c.highest})
		return answer{false, c.highest}
	}
	c.highest = q.token
	if q.verb == verbWrite {
		c.value = q.value
		c.accepted++
	}
	return answer{true, c.value}
}

// Refused returns what was refused so far.
func (s *Server) Refused() []history.Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]history.Refusal{}, s.refused...)
}

// Progress returns the highest token that each counter has seen.
func (s *Server) Progress() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := make(map[string]int64, len(s.counters))
	for name, c := range s.counters {
		seen[name] = c.highest
	}
	return seen
}

// Check returns how many increments were accepted, and an error that
// names each counter which has lost some.
func (s *Server) Check() (accepted int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, c := range s.counters {
		accepted += c.accepted
		if c.value != c.accepted {
			err = errors.Join(err,
				fmt.Errorf("%q: %d increments were accepted, and the counter is %d", name,
					c.accepted, c.value))
		}
	}
	return accepted, err
}

// Close ends the server and its connections.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	_ = s.listener.Close() // fails only if it is closed already
	s.running.Wait()
}
