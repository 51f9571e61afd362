package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	os.Exit(code)
}

// options are the flags.
type options struct {
	seed            uint64
	n, jobs         int
	packages, tests string
	one             string
	timeout         time.Duration
	list            bool
	require         float64
	root, skip      string
}

// published are the packages that users import. A pattern does not reach into a module below its
// folder, so that those are named.
const published = "./renewer/...,./lockmw/...,./lockmw/cronmw/...,./lockmw/grpcmw/...,./tracing/..."

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Uint64Var(&o.seed, "seed", 1+rand.Uint64N(1<<31),
		"which faults, and in which order; by default another one each time")
	flags.IntVar(&o.n, "n", 60, "how many faults; those that don't compile are not counted")
	flags.IntVar(&o.jobs, "jobs", 2, "how many faults at once, each in a copy of its own")
	flags.StringVar(&o.packages, "packages", published,
		"where faults are planted: patterns with commas between them")
	flags.StringVar(&o.tests, "tests", published+",./testutil/...,./integration/...",
		"whose tests are run: likewise")
	flags.StringVar(&o.one, "one", "",
		"plant only this: FILE, FILE:LINE, FILE:LINE:KIND or the ID of a fault")
	flags.DurationVar(&o.timeout, "timeout", 0,
		"of one run of a package's tests, after which the fault counts as found; 0: by what the "+
			"unchanged code takes")
	flags.BoolVar(&o.list, "list", false, "print the faults, and run nothing")
	flags.Float64Var(&o.require, "require", 0,
		"exit status 1 if less than this percentage is found")
	flags.StringVar(&o.root, "root", "..", "the checkout, whose files are only read")
	flags.StringVar(&o.skip, "equivalent", "equivalent.txt",
		"the list of faults that change nothing")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	switch {
	case flags.NArg() > 0:
		err = errors.New("there are no arguments but flags")
	case o.n < 1 || o.jobs < 1 || o.timeout < 0 || o.require < 0 || o.require > 100:
		err = errors.New("-n and -jobs are at least 1, -timeout is not negative, and -require is " +
			"a percentage")
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "mutants:", err)
	}
	return o, err
}

// run is the program. The exit status is 1 if too little was found or something failed, 2 for flags
// that make no sense.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (code int, err error) {
	begin := time.Now()
	o, err := parse(args, stderr)
	if err != nil {
		return 2, nil //nolint:nilerr // the flags have said why
	}
	if o.root, err = filepath.Abs(o.root); err != nil {
		return 1, err
	}
	planted, err := list(ctx, o.root, strings.Split(o.packages, ","))
	if err != nil {
		return 1, err
	}
	queue, err := choose(o, planted, stderr)
	if err != nil {
		return 1, err
	}
	if o.one != "" {
		o.n = len(queue)
	}
	if o.list {
		for _, f := range queue[:min(o.n, len(queue))] {
			_, _ = fmt.Fprintf(stdout, "%s\n%s", f.id(), f.diff())
		}
		_, _ = fmt.Fprintf(stdout, "%d faults of %d. Seed %d.\n", min(o.n, len(queue)), len(queue),
			o.seed)
		return 0, nil
	}
	_, _ = fmt.Fprintf(stdout, "seed %d\n", o.seed)
	verdicts, err := play(ctx, o, planted, queue, stdout)
	if err != nil {
		return 1, err
	}
	_, _ = fmt.Fprint(stdout, summary(verdicts, o.seed, time.Since(begin)))
	if sum(verdicts).percent() < o.require {
		return 1, fmt.Errorf("less than %v %% was found", o.require)
	}
	return 0, nil
}
