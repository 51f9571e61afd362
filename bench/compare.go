package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// compare lets this program and that of another checkout measure Lockbeat in
// turn, and prints how the figures of each round relate. The range is that of
// the rounds: where it has 1 in it, a difference may be the machine's.
func compare(ctx context.Context, o options, w io.Writer) error {
	scratch, err := os.MkdirTemp("", "lockbeat-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	before := filepath.Join(scratch, "before")
	build := exec.CommandContext(ctx, "go", "build", "-o", before, ".")
	build.Dir = filepath.Join(o.before, "bench")
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", build.Dir, err, said)
	}
	after, err := os.Executable()
	if err != nil {
		return err
	}
	ratios := new(figures)
	var was, is figures
	for round := range o.rounds {
		programs := []string{before, after}
		all := make([]figures, len(programs))
		for turn := range programs {
			i := (round + turn) % len(programs) // so that neither always comes first
			if all[i], err = o.measureBy(ctx, programs[i]); err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(programs[i]), err)
			}
		}
		for _, at := range all[1].order {
			b, a := median(all[0].values[at]), median(all[1].values[at])
			was.add(at.Table, at.Row, at.Column, b)
			is.add(at.Table, at.Row, at.Column, a)
			if b != 0 {
				ratios.add(at.Table, at.Row, at.Column, a/b)
			}
		}
	}
	t := table{{"", "", "before", "after", "after ÷ before", "least", "most"}}
	for _, at := range ratios.order {
		v := ratios.values[at]
		t = append(t, []string{
			at.Table + ", " + at.Row, at.Column, number(median(was.values[at])),
			number(median(is.values[at])), number(median(v)), number(slices.Min(v)),
			number(slices.Max(v)),
		})
	}
	_, err = fmt.Fprintf(w, "%d rounds, in turn; cores %s\n\n%s", o.rounds, o.cores, t)
	return err
}

// measureBy has a program measure one round.
func (o options) measureBy(ctx context.Context, program string) (f figures, err error) {
	var leases []string
	args := []string{"-figures", "-rounds", "1", "-who", "^" + lockbeat}
	if o.run != nil {
		args = append(args, "-run", o.run.String())
	}
	if o.short {
		args = append(args, "-short")
	}
	for _, n := range o.leases {
		leases = append(leases, strconv.Itoa(n))
	}
	args = append(args, "-leases", strings.Join(leases, ","))
	var out bytes.Buffer
	command := exec.CommandContext(ctx, program, args...) //nolint:gosec // built or run by the user
	command.Stdout, command.Stderr = &out, os.Stderr
	if err := command.Run(); err != nil {
		return f, err
	}
	var all []figure
	if err := json.NewDecoder(&out).Decode(&all); err != nil {
		return f, err
	}
	for _, one := range all {
		for _, v := range one.Values {
			f.add(one.Table, one.Row, one.Column, v)
		}
	}
	return f, nil
}
