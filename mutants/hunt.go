package main

import (
	"context"
	"errors"
	"strings"
	"time"
)

// verdict is what became of a fault.
type verdict struct {
	fault   fault
	invalid bool // it does not compile
	found   bool
	by      string // the package, and the test if it was one
	took    time.Duration
	notes   []string
}

// hunt plants a fault in a tree and runs the tests that could find it until one does.
func (s *suite) hunt(ctx context.Context, t tree, f fault) (v verdict, err error) {
	begin := time.Now()
	v.fault = f
	defer func() { v.took = time.Since(begin) }()
	restore, err := t.plant(f)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, restore()) }()
	if err := t.compile(ctx, f); errors.Is(err, errBuild) {
		v.invalid = true
		return v, nil
	} else if err != nil {
		return v, err
	}
	steps, err := s.own(f)
	if err == nil {
		err = s.walk(ctx, t, steps, &v)
	}
	if err != nil || v.found || v.invalid {
		return v, err
	}
	if steps, err = s.others(ctx, f); err == nil {
		err = s.walk(ctx, t, steps, &v)
	}
	if err == nil && !v.found && !s.reached(f) {
		v.notes = append(v.notes, "no test comes by this line")
	}
	return v, err
}

// walk takes the steps until one finds the fault.
func (s *suite) walk(ctx context.Context, t tree, steps []step, v *verdict) error {
	binaries := map[string]string{}
	for _, step := range steps {
		m, err := s.measured(ctx, step.p)
		if err != nil {
			return err
		}
		binary, built := binaries[step.p.folder]
		if !built {
			binary, err = t.build(ctx, step.p)
			if errors.Is(err, errBuild) { // the fault changes a constant that a test counts on, say
				v.invalid = true
				return nil
			}
			if err != nil {
				return err
			}
			binaries[step.p.folder] = binary
		}
		test, note, err := t.try(ctx, step,
			order{p: step.p, binary: binary, timeout: s.timeoutOf(m.took)})
		if err != nil {
			return err
		}
		if note != "" {
			v.notes = append(v.notes, note)
		}
		if test != "" {
			v.found, v.by = true, step.p.folder+" "+test
			return nil
		}
	}
	return nil
}

// allTests stands for a package's tests where none is named, as after a panic.
const allTests = "(all of it)"

// try runs a step, and says which test fails; it must do so twice, since a test may fail by itself
// on a busy machine.
func (t tree) try(ctx context.Context, step step, o order) (test, note string, err error) {
	if step.tests != nil {
		o.flags = []string{onlyTests(step.tests)}
	}
	first, err := t.run(ctx, o)
	if err != nil || !first.failed {
		return "", "", err
	}
	if first.hung {
		return "(hangs)", "", nil
	}
	again := o
	if first.tests != nil {
		again.flags = []string{onlyTests(first.tests)}
	}
	// the test alone, and if it passes so, with the others again
	for _, o := range []order{again, o} {
		second, err := t.run(ctx, o)
		switch {
		case err != nil:
			return "", "", err
		case second.failed && second.tests != nil:
			return second.tests[0], "", nil
		case second.failed:
			return allTests, "", nil
		}
	}
	return "", step.p.folder + " failed once, and not again: " + strings.Join(first.tests,
		", "), nil
}
