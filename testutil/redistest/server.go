package redistest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/testutil/child"
)

// ErrMissing means that no redis-server is on the PATH.
var ErrMissing = errors.New("redistest: redis-server is not installed; `make test` installs it")

// Server is a private redis-server. Its methods may be called concurrently.
type Server struct {
	bin    string
	dir    string
	args   []string
	config bool // whether the first argument is a configuration file of its own
	port   int

	mu     sync.Mutex // guards what follows
	proc   *child.Process
	admin  rueidis.Client // nil while the server is killed
	frozen bool
}

// recipe says how to make a server.
type recipe struct {
	port func() (int, error)
	args func() ([]string, error) // made anew for each try, as they may name ports too
	// whether the server needs a configuration file to write to, as a Sentinel
	// does
	config bool
}

// plain is the recipe of a server with nothing but arguments.
func plain(args []string) recipe {
	return recipe{port: freePort, args: func() ([]string, error) { return args, nil }}
}

// Open starts a redis-server on a free loopback port and returns once it
// answers. args are redis-server's own, such as "--appendonly", "yes"; they
// come last and so win over the defaults: no persistence, protected mode, a
// temporary directory. The caller must Close it. It returns ErrMissing where
// there is no redis-server.
func Open(args ...string) (*Server, error) { return open(plain(args)) }

func open(r recipe) (*Server, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, ErrMissing
	}
	dir, err := os.MkdirTemp("", "lockbeat-redis-")
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	s := &Server{bin: bin, dir: dir, config: r.config}
	if err = s.prepare(r); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// prepare finds ports and launches the server on them.
func (s *Server) prepare(r recipe) (err error) {
	if s.config {
		if err = os.WriteFile(s.configPath(), nil, 0o600); err != nil {
			return fmt.Errorf("redistest: %w", err)
		}
	}
	const tries = 10 // another process may take a port between finding and binding it
	for range tries {
		if s.port, err = r.port(); err != nil {
			return err
		}
		if s.args, err = r.args(); err != nil {
			return err
		}
		if err = s.launch(); !errors.Is(err, errPortUse) {
			return err
		}
	}
	return err
}

// launch starts the process on s.port, with s.mu held or s not shared yet.
func (s *Server) launch() error {
	args := append([]string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--dir", s.dir,
		"--save", "", "--appendonly", "no",
	}, s.args...)
	if s.config {
		args = append([]string{s.configPath()}, args...)
	}
	if err := os.Remove(s.logPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("redistest: %w", err)
	}
	proc, err := child.Start(exec.Command(s.bin, args...), s.logPath())
	if err != nil {
		return fmt.Errorf("redistest: %w", err)
	}
	if err := awaitReady(proc, s.Addr(), s.logPath()); err != nil {
		proc.Kill()
		return fmt.Errorf("redistest: %w\n%s", err, child.Tail(s.logPath()))
	}
	admin, err := s.NewClient()
	if err != nil {
		proc.Kill()
		return err
	}
	s.proc, s.admin, s.frozen = proc, admin, false
	return nil
}

func (s *Server) configPath() string { return filepath.Join(s.dir, "redis.conf") }

func (s *Server) logPath() string { return filepath.Join(s.dir, "redis.log") }

// Addr returns the server's address, "127.0.0.1:port". It stays the same over a
// Restart.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Port returns the server's port.
func (s *Server) Port() int { return s.port }

// Log returns the end of the server's log, up to 16 KiB, of its last start.
func (s *Server) Log() string { return child.Tail(s.logPath()) }

// Stop freezes the server by SIGSTOP and returns once it stands still (on
// Linux; elsewhere soon after). Connections stay up and nothing is answered,
// but keys expire meanwhile. It is an error if the server is killed.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.proc.Pause(); err != nil {
		return err
	}
	s.frozen = true
	return nil
}

// Cont lets a frozen server go on, by SIGCONT; it does nothing to one
// that runs. It is an error if the server is killed.
func (s *Server) Cont() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.frozen = false
	return s.proc.Resume()
}

// running reports whether the server can answer: neither killed nor frozen.
func (s *Server) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admin != nil && !s.frozen
}

// Kill ends the server by SIGKILL, frozen or not, and returns when it is gone.
// Its port is refused from then on, and its directory is kept for Restart.
// Killing it again does nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killLocked()
}

func (s *Server) killLocked() {
	s.proc.Kill()
	if s.admin != nil {
		s.admin.Close() // returns at once, now that the connection is broken
		s.admin = nil
	}
}

// Restart kills the server if it runs, and starts it again on the same port
// with the same arguments and directory. What it remembers depends on the
// persistence asked for: by default nothing.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killLocked()
	return s.launch()
}

// Close kills the server and removes its directory. Its clients
// should be closed before: see NewClient.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killLocked()
	return os.RemoveAll(s.dir)
}

// password returns the one that the server was started with, or "".
func (s *Server) password() string {
	if i := slices.Index(s.args, "--requirepass"); i >= 0 && i+1 < len(s.args) {
		return s.args[i+1]
	}
	return ""
}
