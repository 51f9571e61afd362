package main

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// suite is the tests that could notice.
type suite struct {
	module   string
	planted  []string // import paths of the packages that faults are planted in
	packages []pkg    // those with tests, in the order of their import paths
	timeout  time.Duration
	plain    tree // the code as it is

	mu    sync.Mutex
	known map[string]*measurement // by folder
	notes []string
}

// step is one run of tests.
type step struct {
	p     pkg
	tests []string // all, if there are none
}

// own returns the tests of the fault's package, those nearest first.
func (s *suite) own(f fault) ([]step, error) {
	i := slices.IndexFunc(s.packages, func(p pkg) bool { return p.folder == path.Dir(f.file) })
	if i < 0 {
		return nil, nil
	}
	p := s.packages[i]
	near, err := nearTests(s.plain.root, p, f.file)
	if err != nil || near == nil {
		return []step{{p: p}}, err
	}
	return []step{{p: p, tests: near}, {p: p}}, nil
}

// others returns the tests of the packages that import the fault's and come by its place, the
// quickest first.
func (s *suite) others(ctx context.Context, f fault) ([]step, error) {
	packages := slices.DeleteFunc(slices.Clone(s.packages), func(p pkg) bool {
		return p.folder == path.Dir(f.file) || !p.imports(s.module+"/"+path.Dir(f.file))
	})
	for _, p := range packages {
		if s.begun(p) { // another worker measures it; there may be others to measure meanwhile
			continue
		}
		if _, err := s.measured(ctx, p); err != nil {
			return nil, err
		}
	}
	var steps []step
	took := map[string]time.Duration{}
	for _, p := range packages {
		m, err := s.measured(ctx, p)
		if err != nil {
			return nil, err
		}
		took[p.folder] = m.took
		// Those of a package that holds nothing but tests always may: it was made to find such
		// things, and starts processes that are not counted.
		if len(p.sources()) == 0 || m.covered.passes(f.file, f.line, f.column) {
			steps = append(steps, step{p: p})
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int {
		return int(took[a.p.folder] - took[b.p.folder])
	})
	return steps, nil
}

// reached reports whether any test that has been measured comes by.
func (s *suite) reached(f fault) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.known {
		if m.covered != nil && m.covered.passes(f.file, f.line, f.column) {
			return true
		}
	}
	return false
}

// The tests nearest to a script.
var luaTests = []string{"scripts_test.go", "reply_test.go", "conformance_test.go"}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+|Example\w*)\(`)

// nearTests returns the tests of the file that goes by the same name; for a script, those that are
// about scripts.
func nearTests(root string, p pkg, file string) ([]string, error) {
	names := []string{strings.TrimSuffix(path.Base(file), ".go") + "_test.go"}
	if path.Ext(file) == ".lua" {
		names = luaTests
	}
	var tests []string
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(root, p.folder, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, m := range testFunction.FindAllStringSubmatch(string(text), -1) {
			if m[1] != "TestMain" {
				tests = append(tests, m[1])
			}
		}
	}
	return tests, nil
}
