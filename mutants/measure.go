package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// firstTimeout bounds the tests of the unchanged code.
const firstTimeout = 5 * time.Minute

// A fault's run may take so many times what the unchanged code took, and this much besides: the
// machine may be busier by then.
const (
	patience      = 2
	patienceFixed = 30 * time.Second
)

// measurement is what is known of a package's tests from a run on the unchanged code. It is written
// under suite.mu, and may be read without by those who have waited for once.
type measurement struct {
	once    sync.Once
	took    time.Duration
	covered coverage
	err     error
}

// measured runs the tests of a package on the unchanged code, the first time that it is asked: they
// must pass. It may be called concurrently.
func (s *suite) measured(ctx context.Context, p pkg) (*measurement, error) {
	s.mu.Lock()
	m, ok := s.known[p.folder]
	if !ok {
		m = new(measurement)
		s.known[p.folder] = m
	}
	s.mu.Unlock()
	m.once.Do(func() {
		took, covered, err := s.measure(ctx, p)
		s.mu.Lock()
		m.took, m.covered, m.err = took, covered, err
		s.mu.Unlock()
	})
	return m, m.err
}

// begun reports whether a package has been measured, or is being measured.
func (s *suite) begun(p pkg) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[p.folder] != nil
}

// measure gives tests that fail a second chance, since a busy machine makes even a good test late.
func (s *suite) measure(ctx context.Context, p pkg) (time.Duration, coverage, error) {
	binary, err := s.plain.build(ctx, p, "-cover", "-coverpkg="+strings.Join(s.planted, ","))
	if err != nil {
		return 0, nil, err
	}
	profile := binary + ".cover"
	var o outcome
	first := ""
	for range 2 {
		o, err = s.plain.run(ctx, order{
			p: p, binary: binary, timeout: cmp.Or(s.timeout, firstTimeout), whole: true,
			flags: []string{"-test.coverprofile=" + profile},
		})
		if err != nil {
			return 0, nil, err
		}
		if !o.failed {
			s.note(first)
			c, err := readCoverage(profile, s.module)
			return o.took, c, err
		}
		first = fmt.Sprintf("%s failed once on the unchanged code, and not again: %s", p.folder,
			cmp.Or(strings.Join(o.tests, ", "), "after "+o.took.String()))
	}
	output := strings.ReplaceAll(o.output, filepath.Dir(s.plain.root), "")
	return 0, nil, fmt.Errorf("%s: the tests of the unchanged code fail, so that they can prove "+
		"nothing:\n%s", p.folder, output)
}

// note keeps what is to be said at the end.
func (s *suite) note(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if text != "" {
		s.notes = append(s.notes, text)
	}
}

// timeoutOf bounds a run of tests that took so long on the unchanged code.
func (s *suite) timeoutOf(took time.Duration) time.Duration {
	return cmp.Or(s.timeout, patience*took+patienceFixed)
}
