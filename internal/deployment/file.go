package deployment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"
)

// These bound files, in bytes, so that a wrong name, such as a device's, ends. The certificates of
// a whole system have 200 kB.
const (
	mostFile = 64 << 10
	mostPEM  = 4 << 20
)

// ReadFile reads a small file that no other user can write, and that is ours or root's.
func ReadFile(path string) (text string, mode fs.FileMode, err error) {
	text, info, err := readOpened(path)
	if err == nil && !ours(info) {
		return "", 0, fmt.Errorf("%s: belongs to another user, who could choose the server; "+
			"let it be yours or root's", path)
	}
	if err != nil {
		return "", 0, err
	}
	return text, info.Mode(), nil
}

// readOpened reads a small file that has no mode by which other users can write it. It looks at the
// file that it has opened, not at the name, which may lead elsewhere a moment later.
func readOpened(path string) (text string, info fs.FileInfo, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil, plain(path, err)
	}
	defer func() { _ = f.Close() }()
	if info, err = f.Stat(); err != nil {
		return "", nil, plain(path, err)
	}
	if hasModes && info.Mode().IsRegular() && info.Mode().Perm()&0o022 != 0 {
		return "", nil, fmt.Errorf("%s: others can write it; chmod go-w it", path)
	}
	all, err := readAtMost(f, mostFile)
	return string(all), info, err
}

func readAtMost(f *os.File, most int) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(f, int64(most)+1))
	switch {
	case err != nil:
		return nil, plain(f.Name(), err)
	case len(all) > most:
		return nil, fmt.Errorf("%s: has more than %d bytes", f.Name(), most)
	}
	return all, nil
}

// readPEM reads a file with certificates or a key.
func readPEM(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, plain(path, err)
	}
	defer func() { _ = f.Close() }()
	return readAtMost(f, mostPEM)
}

// plain is an error without the name of a system call.
func plain(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// ReadableByAll reports whether every user of the machine can read a file with this mode.
func ReadableByAll(mode fs.FileMode) bool {
	return hasModes && mode.IsRegular() && mode.Perm()&0o004 != 0
}

// hasModes reports whether the bits of a file's mode say who may use it.
const hasModes = runtime.GOOS != "windows"

// readPassword reads the password in the file that a variable names; "" if the variable is not set.
func (v *variables) readPassword(name string) string {
	path := v.values[name]
	if path == "" {
		return ""
	}
	password, info, err := passwordIn(path)
	// Neither is refused: the secrets of Docker and Kubernetes look like this inside a container.
	switch {
	case err != nil:
		v.fault(name, "%v", err)
	case ReadableByAll(info.Mode()):
		v.warn("%s: everybody can read %s; chmod 600", name, path)
	case !ours(info):
		v.warn("%s: %s belongs to another user; let it be yours or root's", name, path)
	}
	return password
}

func (v *variables) warn(format string, args ...any) {
	v.warnings = append(v.warnings, fmt.Sprintf(format, args...))
}

// passwordIn reads a file that is one line with a password.
func passwordIn(path string) (password string, info fs.FileInfo, err error) {
	text, info, err := readOpened(path)
	if err != nil {
		return "", nil, err
	}
	password = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if password == "" || strings.ContainsAny(password, "\r\n") {
		return "", nil, fmt.Errorf("%s: is not one line with a password", path)
	}
	return password, info, nil
}

// ReadPassword reads the password in a file that no other user can write. Errors show no part of
// it.
func ReadPassword(path string) (string, error) {
	password, _, err := passwordIn(path)
	return password, err
}
