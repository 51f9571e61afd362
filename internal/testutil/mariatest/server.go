package mariatest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lockbeat/lockbeat/internal/testutil/child"
)

// RequireEnv is the environment variable that, set to "1", asks tests to fail
// where MariaDB is missing, and not to be skipped.
const RequireEnv = "LOCKBEAT_REQUIRE_MARIADB"

// ErrMissing means that MariaDB is not installed.
var ErrMissing = errors.New("mariatest: MariaDB (mariadbd) is not installed; " +
	"`scripts/ensure mariadb` installs it")

const startTimeout = 30 * time.Second // on a busy machine

// Server is a private MariaDB server. Its methods may be called concurrently.
type Server struct {
	dir  string
	proc *child.Process
}

// Open starts a server without any database and returns once it answers.
// Nothing is synced to the disk. The caller must Close it. It returns
// ErrMissing where MariaDB is not installed.
func Open() (*Server, error) {
	program, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lockbeat-maria-")
	if err != nil {
		return nil, fmt.Errorf("mariatest: %w", err)
	}
	s := &Server{dir: dir}
	if err := s.launch(program); err != nil {
		return nil, errors.Join(fmt.Errorf("mariatest: %w\n%s", err, s.Log()), os.RemoveAll(dir))
	}
	return s, nil
}

// find is the path of the server's program, which some systems keep off the
// PATH.
func find() (string, error) {
	for _, name := range []string{"mariadbd", "/usr/sbin/mariadbd", "/usr/libexec/mariadbd"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

// launch starts the process on an empty folder. The tables of users and rights,
// which take mariadb-install-db seconds to make, are missing then, so that the
// server must not ask for them.
func (s *Server) launch(program string) error {
	account, err := child.Unprivileged("mysql", "nobody")
	if err != nil {
		return err
	}
	data := filepath.Join(s.dir, "data")
	if err := errors.Join(
		os.Mkdir(data, 0o700), account.Own(s.dir), account.Own(data),
	); err != nil {
		return err
	}
	cmd := exec.Command(program, "--no-defaults", "--skip-grant-tables", "--skip-networking",
		"--datadir="+data, "--socket="+s.socket(), "--pid-file="+filepath.Join(s.dir, "pid"),
		"--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M",
		"--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0")
	cmd.Dir = s.dir
	account.Run(cmd)
	if s.proc, err = child.Start(cmd, s.logPath()); err != nil {
		return err
	}
	if err := s.proc.AwaitLog("ready for connections", startTimeout); err != nil {
		s.proc.Kill()
		return err
	}
	return nil
}

func (s *Server) socket() string { return filepath.Join(s.dir, "socket") }

func (s *Server) logPath() string { return filepath.Join(s.dir, "mariadb.log") }

// DSN returns how to connect to a database, or to none if it is "", for
// github.com/go-sql-driver/mysql.
func (s *Server) DSN(database string) string { return "root@unix(" + s.socket() + ")/" + database }

// Log returns the end of the server's log, up to 16 KiB.
func (s *Server) Log() string { return child.Tail(s.logPath()) }

// Close kills the server and removes its data.
func (s *Server) Close() error {
	s.proc.Kill()
	return os.RemoveAll(s.dir)
}
