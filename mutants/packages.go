package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// pkg is a package of the checkout, as go list describes it.
type pkg struct {
	ImportPath, Dir                    string
	GoFiles, EmbedFiles                []string
	TestGoFiles, XTestGoFiles          []string
	Imports, TestImports, XTestImports []string

	folder string // slash-separated, from the root of the checkout
}

// sources returns the names of the files in which faults are planted.
func (p pkg) sources() []string {
	names := slices.DeleteFunc(slices.Clone(p.GoFiles), func(name string) bool {
		return name == "doc.go"
	})
	for _, name := range p.EmbedFiles {
		if strings.HasSuffix(name, ".lua") {
			names = append(names, name)
		}
	}
	return names
}

func (p pkg) hasTests() bool { return len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }

// imports reports whether the package or its tests import the path.
func (p pkg) imports(path string) bool {
	return slices.Contains(p.Imports, path) || slices.Contains(p.TestImports, path) ||
		slices.Contains(p.XTestImports, path)
}

// list returns the packages that the patterns match in the checkout at root.
func list(ctx context.Context, root string, patterns []string) ([]pkg, error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{
		"list", "-json=ImportPath,Dir,GoFiles,EmbedFiles,TestGoFiles,XTestGoFiles," +
			"Imports,TestImports,XTestImports",
	}, patterns...)...)
	cmd.Dir, cmd.Env = root, environment("")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w\n%s", strings.Join(patterns, " "), err,
			stderr.Bytes())
	}
	var packages []pkg
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list %s: %w", strings.Join(patterns, " "), err)
		}
		folder, err := filepath.Rel(root, p.Dir)
		if err != nil {
			return nil, err
		}
		p.folder = filepath.ToSlash(folder)
		packages = append(packages, p)
	}
}

// environment is that of every command: all modules of the checkout's workspace are built together,
// no test is skipped for want of Redis, and what tests leave behind is in temp.
func environment(temp string) []string {
	env := append(os.Environ(), "LOCKBEAT_REQUIRE_REDIS=1", "GOWORK=",
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -buildvcs=false")
	if temp != "" {
		env = append(env, "TMPDIR="+temp)
	}
	return env
}
