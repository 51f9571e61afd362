package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lockbeat/lockbeat/internal/testutil/child"
)

const (
	startTimeout = 30 * time.Second // recovery after a crash, on a busy machine
	stopTimeout  = 10 * time.Second
	ready        = "database system is ready to accept connections"
)

// Server is a private PostgreSQL server. Its methods may be called
// concurrently.
type Server struct {
	bin      string // the folder of the programs
	dir      string
	settings []string
	user     *child.Account // whom it runs as

	mu   sync.Mutex // guards what follows
	proc *child.Process
}

// Open makes an empty database cluster, starts a server on it and returns once
// that answers. settings are PostgreSQL's own, such as "lock_timeout=1s"; they
// win over the defaults, by which nothing is synced to the disk: a crash of the
// server loses nothing, one of the machine would. The caller must Close it. It
// returns ErrMissing where PostgreSQL is not installed.
func Open(settings ...string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	user, err := child.Unprivileged("postgres", "nobody")
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	dir, err := os.MkdirTemp("", "lockbeat-pg-")
	if err != nil {
		return nil, fmt.Errorf("pgtest: %w", err)
	}
	s := &Server{bin: bin, dir: dir, settings: settings, user: user}
	own := func() error { return user.Own(dir) }
	for _, step := range []func() error{own, s.create, s.launch} {
		if err := step(); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	return s, nil
}

// create makes the database cluster.
func (s *Server) create() error {
	out, err := s.command("initdb", "--pgdata", s.data(), "--username", "lockbeat", "--auth",
		"trust",
		"--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions").CombinedOutput()
	if err != nil {
		return fmt.Errorf("pgtest: initdb: %w\n%s", err, out)
	}
	return nil
}

// launch starts the process, with s.mu held or s not shared yet.
func (s *Server) launch() error {
	args := []string{
		"-D", s.data(), "-k", s.dir, "-h", "", "-c", "fsync=off", "-c", "max_connections=200",
		"-c", "log_min_messages=log", "-c", "logging_collector=off",
	}
	for _, setting := range s.settings {
		args = append(args, "-c", setting)
	}
	if err := os.Remove(s.logPath()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("pgtest: %w", err)
	}
	proc, err := child.Start(s.command("postgres", args...), s.logPath())
	if err != nil {
		return fmt.Errorf("pgtest: %w", err)
	}
	if err := proc.AwaitLog(ready, startTimeout); err != nil {
		proc.Kill()
		return fmt.Errorf("pgtest: %w\n%s", err, s.Log())
	}
	s.proc = proc
	return nil
}

// command is a program of PostgreSQL's, as the server's user.
func (s *Server) command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGTZ=UTC")
	s.user.Run(cmd)
	return cmd
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) logPath() string { return filepath.Join(s.dir, "postgres.log") }

// DSN returns how to connect, for pgx and lib/pq, as a superuser. It stays the
// same over a Restart.
func (s *Server) DSN() string {
	return "host=" + s.dir + " user=lockbeat dbname=postgres sslmode=disable"
}

// Log returns the end of the server's log, up to 16 KiB, of its last start.
func (s *Server) Log() string { return child.Tail(s.logPath()) }

// Kill ends the server and all of its sessions at once, as a crash does: what
// was committed is there after a Restart. It returns when the server is gone.
// Killing it again does nothing.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
}

// kill does not use SIGKILL, after which sessions would live on for a while.
func (s *Server) kill() {
	if s.proc.Signal(syscall.SIGQUIT) != nil {
		return // it has ended
	}
	late := time.NewTimer(stopTimeout)
	defer late.Stop()
	select {
	case <-s.proc.Done():
	case <-late.C:
		s.proc.Kill()
	}
}

// Restart kills the server if it runs, and starts it again on its data.
func (s *Server) Restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	return s.launch()
}

// Close kills the server and removes its data.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kill()
	return os.RemoveAll(s.dir)
}
