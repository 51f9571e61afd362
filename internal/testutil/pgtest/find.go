package pgtest

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strconv"
)

// ErrMissing means that PostgreSQL is not installed.
var ErrMissing = errors.New("pgtest: PostgreSQL (initdb, postgres) is not installed; " +
	"`scripts/ensure postgres` installs it")

// programs is the folder of PostgreSQL's programs. Debian keeps them off the
// PATH, one folder a version.
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
