package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// choose returns the faults in the order in which they are to be planted.
func choose(o options, planted []pkg, stderr io.Writer) ([]fault, error) {
	all, err := allFaults(o.root, planted)
	if err != nil {
		return nil, err
	}
	if o.one != "" {
		all = named(all, o.one)
		if len(all) == 0 {
			return nil, fmt.Errorf("there is no fault %s to plant; -list shows how they are named",
				o.one)
		}
	}
	if strings.Contains(o.one, ":") { // of a line, the known ones too
		return all, nil
	}
	known, err := readEquivalents(o.skip)
	if err != nil {
		return nil, err
	}
	all, stale := withoutEquivalents(all, known)
	if o.one != "" {
		return all, nil
	}
	for _, e := range stale {
		_, _ = fmt.Fprintf(stderr,
			"mutants: %s has an entry for %s that fits no fault (any more): - %s\n",
			o.skip, e.file, e.before)
	}
	return shuffle(all, o.seed), nil
}

// play plants the faults in copies of the checkout.
func play(
	ctx context.Context, o options, planted []pkg, queue []fault, stdout io.Writer,
) (verdicts []verdict, err error) {
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	s, err := newSuite(ctx, o, planted)
	if err != nil {
		return nil, err
	}
	if s.plain, err = copyCheckout(ctx, o.root, filepath.Join(scratch, "plain")); err != nil {
		return nil, err
	}
	var trees []tree
	for i := range o.jobs {
		t, err := copyCheckout(ctx, o.root, filepath.Join(scratch, strconv.Itoa(i)))
		if err != nil {
			return nil, err
		}
		trees = append(trees, t)
	}
	verdicts, err = newCampaign(s, stdout, queue, o.n).run(ctx, trees)
	for _, note := range s.notes {
		_, _ = fmt.Fprintln(stdout, note)
	}
	return verdicts, err
}

// newSuite lists the tests that there are.
func newSuite(ctx context.Context, o options, planted []pkg) (*suite, error) {
	packages, err := list(ctx, o.root, strings.Split(o.tests, ","))
	if err != nil {
		return nil, err
	}
	module, err := modulePath(ctx, o.root)
	if err != nil {
		return nil, err
	}
	s := &suite{module: module, timeout: o.timeout, known: map[string]*measurement{}}
	for _, p := range packages {
		if p.hasTests() {
			s.packages = append(s.packages, p)
		}
	}
	for _, p := range planted {
		s.planted = append(s.planted, p.ImportPath)
	}
	return s, nil
}

// modulePath returns the path of the module at root, with which those below it begin.
func modulePath(ctx context.Context, root string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m")
	cmd.Dir, cmd.Env = root, append(environment(""), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}
