package deployment

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// These bound files, in bytes, so that a wrong name, such as a device's, ends.
// The certificates of a whole system have 200 kB.
const (
	mostFile = 64 << 10
	mostPEM  = 4 << 20
)

// ReadFile reads a small file that no other user can write, and that is ours or
// root's.
func ReadFile(path string) (text string, mode fs.FileMode, err error) {
	text, info, err := readOpened(path, mostFile)
	if err == nil && !ours(info) {
		return "", 0, fmt.Errorf("%s: belongs to another user, who could choose the server; "+
			"let it be yours or root's", path)
	}
	if err != nil {
		return "", 0, err
	}
	return text, info.Mode(), nil
}

// readOpened reads a file of so many bytes at most that has no mode by which
// other users can write it. It looks at the file that it has opened, not at the
// name, which may lead elsewhere a moment later.
func readOpened(path string, most int64) (text string, info fs.FileInfo, err error) {
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
	all, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return "", nil, plain(path, err)
	case int64(len(all)) > most:
		return "", nil, fmt.Errorf("%s: has more than %d bytes", path, most)
	}
	return string(all), info, nil
}

// fileFault notes what is wrong with a file that a variable names. Where
// neither it nor its folder is, the value may be a secret that was put in the
// place of a file's name, and is not shown.
func (v *variables) fileFault(variable, path string, err error) {
	folder := filepath.Dir(path)
	_, noFolder := os.Stat(folder)
	if _, none := os.Stat(path); none != nil &&
		(noFolder != nil || folder == "." || folder == "/") {
		err = errors.New("names no file that can be opened; give the path of one, folder and all")
	}
	v.fault(variable, "%v", err)
}

// plain is an error without the name of a system call.
func plain(path string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// ReadableByAll reports whether every user of the machine can read a file with
// this mode.
func ReadableByAll(mode fs.FileMode) bool {
	return hasModes && mode.IsRegular() && mode.Perm()&0o004 != 0
}

// hasModes reports whether the bits of a file's mode say who may use it.
const hasModes = runtime.GOOS != "windows"

// readPassword reads the password in the file that a variable names; "" if the
// variable is not set.
func (v *variables) readPassword(name string) string {
	path := v.values[name]
	if path == "" {
		return ""
	}
	password, info, err := passwordIn(path)
	if err != nil {
		v.fileFault(name, path, err)
		return ""
	}
	v.warnOf(name, path, info, true)
	return password
}

// warnOf warns of a file that others than we can use.
func (v *variables) warnOf(name, path string, info fs.FileInfo, secret bool) {
	if text := unsafe(path, info, secret); text != "" {
		v.warnings = append(v.warnings, v.name(name)+": "+text)
	}
}

// unsafe says what others may do with a file; "" if nothing. It is not refused:
// the secrets of Docker and Kubernetes look like this inside a container.
func unsafe(path string, info fs.FileInfo, secret bool) string {
	switch {
	case secret && ReadableByAll(info.Mode()):
		return "everybody can read " + path + "; chmod 600"
	case !ours(info):
		return path + " belongs to another user; let it be yours or root's"
	}
	return ""
}

// passwordIn reads a file that is one line with a password.
func passwordIn(path string) (password string, info fs.FileInfo, err error) {
	text, info, err := readOpened(path, mostFile)
	if err != nil {
		return "", nil, err
	}
	password = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	if password == "" || strings.ContainsAny(password, "\r\n") {
		return "", nil, fmt.Errorf("%s: is not one line with a password", path)
	}
	return password, info, nil
}

// ReadPassword reads the password in a file that no other user can write. It
// warns of one that others than we can use; "" if they can't. Errors show no
// part of it.
func ReadPassword(path string) (password, warning string, err error) {
	password, info, err := passwordIn(path)
	if err != nil {
		return "", "", err
	}
	return password, unsafe(path, info, true), nil
}
