package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree is a copy of the checkout in which faults are planted, with a folder beside it for what
// tests leave behind.
type tree struct{ root, temp string }

// copyCheckout copies what git knows, or would, of the checkout at root, changes that are not
// committed included.
func copyCheckout(ctx context.Context, root, to string) (tree, error) {
	t := tree{root: filepath.Join(to, "src"), temp: filepath.Join(to, "tmp")}
	out, err := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "-z", "--cached",
		"--others", "--exclude-standard").Output()
	if err != nil {
		return t, fmt.Errorf("list the files of %s: %w", root, err)
	}
	if err := os.MkdirAll(t.temp, 0o700); err != nil {
		return t, err
	}
	for name := range strings.SplitSeq(string(bytes.TrimRight(out, "\x00")), "\x00") {
		if err := copyFile(filepath.Join(root, name), filepath.Join(t.root, name)); err != nil &&
			!errors.Is(err, fs.ErrNotExist) {
			return t, err // one that does not exist was deleted, and not committed
		}
	}
	return t, nil
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil || info.IsDir() { // a module within the module, which git names as one
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// plant puts the fault in its file, and returns what takes it out again.
func (t tree) plant(f fault) (restore func() error, err error) {
	path := filepath.Join(t.root, f.file)
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(path, f.plant(src), 0o600); err != nil {
		return nil, err
	}
	return func() error { return os.WriteFile(path, src, 0o600) }, nil
}
