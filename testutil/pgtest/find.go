//go:build unix

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// ErrMissing means that PostgreSQL is not installed.
var ErrMissing = errors.New("pgtest: PostgreSQL (initdb, postgres) is not installed; " +
	"`scripts/ensure postgres` installs it")

// programs is the folder of PostgreSQL's programs. Debian keeps them off the PATH, one folder a
// version.
func programs() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(path), nil
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // fails for a bad pattern only
	newest, dir := 0, ""
	for _, path := range found {
		bin := filepath.Dir(path)
		if version, _ := strconv.Atoi(filepath.Base(filepath.Dir(bin))); version > newest {
			newest, dir = version, bin
		}
	}
	if dir == "" {
		return "", ErrMissing
	}
	return dir, nil
}

// account is a user of the system.
type account struct{ uid, gid int }

// unprivileged is whom the server runs as if we are root; otherwise nil.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // no other user is needed
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	if err != nil {
		return nil, fmt.Errorf("we are root, and there is neither a user postgres nor nobody to "+
			"run the server: %w", err)
	}
	uid, err0 := strconv.Atoi(u.Uid)
	gid, err1 := strconv.Atoi(u.Gid)
	return &account{uid, gid}, errors.Join(err0, err1)
}

// attributes have a process run as the user.
func (a *account) attributes() *syscall.SysProcAttr {
	if a == nil {
		return nil
	}
	return &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)},
	}
}
