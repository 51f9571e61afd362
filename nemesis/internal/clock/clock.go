// Package clock gives redis-server processes wall clocks of their own, which can
// be stepped and run fast or slow. Redis keeps the time of expiry by that clock.
package clock

import (
	_ "embed"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

//go:embed preload/clock.c
var source []byte

// script stands in for redis-server: it finds the server's directory
// among the arguments, where the file is that sets its clock.
const script = `#!/bin/sh
for arg; do
	[ "$before" = --dir ] && dir=$arg
	before=$arg
done
LD_PRELOAD='%s' CLOCK=$dir/%s exec '%s' "$@"
`

const file = "wall-clock"

// Install puts a redis-server on the PATH of this process that lets
// its clock be set. It needs a C compiler. remove undoes it.
func Install() (remove func() error, err error) {
	server, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, redistest.ErrMissing
	}
	dir, err := os.MkdirTemp("", "lockbeat-clock-")
	if err != nil {
		return nil, err
	}
	path := os.Getenv("PATH")
	remove = func() error {
		_ = os.Setenv("PATH", path) // it was so before
		return os.RemoveAll(dir)
	}
	if err := install(dir, server); err != nil {
		_ = remove()
		return nil, err
	}
	return remove, os.Setenv("PATH", dir+string(os.PathListSeparator)+path)
}

func install(dir, server string) error {
	code, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(code, source, 0o600); err != nil {
		return err
	}
	said, err := exec.Command("cc", "-O2", "-shared", "-fPIC", "-o", library, code).CombinedOutput()
	if err != nil {
		return fmt.Errorf("clock: cc: %w: %s; a C compiler is needed: scripts/ensure cc", err, said)
	}
	text := fmt.Sprintf(script, library, file, server)
	//nolint:gosec // it must be executable
	return os.WriteFile(filepath.Join(dir, "redis-server"), []byte(text), 0o700)
}

// Clock is the wall clock of one server.
type Clock struct{ path string }

// Of finds the clock of a server that runs.
func Of(s *redistest.Server) (Clock, error) {
	reply, err := s.Do("CONFIG", "GET", "dir").AsStrMap()
	if err != nil {
		return Clock{}, err
	}
	return Clock{filepath.Join(reply["dir"], file)}, nil
}

// setting is as clock.c has it.
type setting struct{ From, Offset, Rate int64 }

type shared struct {
	Active   int64
	Settings [2]setting
}

// Step sets the clock ahead by d, or back.
func (c Clock) Step(d time.Duration) error {
	return c.change(func(s *setting) { s.Offset += int64(d) })
}

// Rate makes the clock gain so much: 0.01 is 1 %. What it has gained so far stays.
func (c Clock) Rate(gain float64) error {
	return c.change(func(s *setting) { s.Rate = int64(gain * 1e9) })
}

func (c Clock) change(edit func(*setting)) error {
	f, err := os.OpenFile(c.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("clock: the server was not started by the redis-server of Install: %w",
			err)
	}
	defer func() { _ = f.Close() }() // what was written is told by its own error
	var all shared
	if err := binary.Read(f, binary.NativeEndian, &all); err != nil {
		return fmt.Errorf("clock: %s: %w", c.path, err)
	}
	next := all.Settings[all.Active&1]
	now := time.Now().UnixNano()
	next.Offset += int64(float64(now-next.From) * float64(next.Rate) * 1e-9)
	next.From = now
	edit(&next)
	all.Settings[(all.Active+1)&1] = next
	if err := write(f, 8, all.Settings); err != nil {
		return err
	}
	return write(f, 0, all.Active+1) // from here on it counts
}

func write(f *os.File, at int64, data any) error {
	text, err := binary.Append(nil, binary.NativeEndian, data)
	if err == nil {
		_, err = f.WriteAt(text, at)
	}
	return err
}
