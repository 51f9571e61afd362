package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/lockbeat/lockbeat/nemesis/internal/campaign"
	"github.com/lockbeat/lockbeat/nemesis/internal/clock"
	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
)

func main() {
	if spec := os.Getenv(worker.Env); spec != "" {
		os.Exit(worker.Main(spec, os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 1
	remove, err := clock.Install()
	if err == nil {
		code = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
		err = remove()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "nemesis:", err)
		code = 1
	}
	stop()
	os.Exit(code)
}

// all stands for every deployment, and for every fault that fits.
const all = "all"

// run is the program: it returns the exit status, 1 if anything was
// violated, 2 for flags that make no sense.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, deployments, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	var results []campaign.Result
	for _, d := range deployments {
		o.Deployment = d
		r, err := campaign.Run(ctx, o)
		if err != nil {
			_, _ = fmt.Fprintf(stderr, "nemesis: %s: %v\n", d, err)
			return 1
		}
		results = append(results, r)
	}
	if report(stdout, results) {
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (o campaign.Options, deployments []string, err error) {
	o = campaign.Defaults()
	flags := flag.NewFlagSet("nemesis", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.Deployment, "deployment", all, strings.Join(deploy.Kinds, ", ")+" or all")
	flags.Uint64Var(&o.Seed, "seed", o.Seed, "what happens to whom")
	flags.DurationVar(&o.Duration, "duration", o.Duration, "of each deployment's campaign")
	faults := flags.String("faults", all, "names of faults, with commas between them, or all")
	flags.DurationVar(&o.TTL, "ttl", o.TTL, "of the locks")
	flags.IntVar(&o.Workers, "workers", o.Workers, "processes")
	flags.IntVar(&o.Callers, "callers", o.Callers, "goroutines of each that take locks")
	flags.IntVar(&o.Keys, "keys", o.Keys, "locks that they contend for")
	flags.IntVar(&o.Long, "long", o.Long, "one in how many uses outlasts a TTL")
	flags.DurationVar(&o.BreakEvery, "break-every", o.BreakEvery,
		"how often each worker breaks a lease, on average; 0: never")
	flags.DurationVar(&o.MostWait, "most-wait", o.MostWait,
		"the longest that a process that runs may wait for a lock; 0: not judged")
	flaw := flags.String("flaw", "",
		fmt.Sprintf("break the lock on purpose, to see it found: %v", worker.Flaws))
	verbose := flags.Bool("v", false, "say what goes wrong")
	if err := flags.Parse(args); err != nil {
		return o, nil, err
	}
	o.Flaw = worker.Flaw(*flaw)
	if *faults != all {
		o.Faults = strings.Split(*faults, ",")
	}
	deployments = deploy.Kinds
	if o.Deployment != all {
		deployments = []string{o.Deployment}
	}
	if *verbose {
		o.Say = func(format string, args ...any) {
			_, _ = fmt.Fprintf(stderr, format+"\n", args...)
		}
	}
	switch {
	case flags.NArg() > 0:
		err = errors.New("there are no arguments but flags")
	case o.Flaw != worker.Sound && !slices.Contains(worker.Flaws, o.Flaw):
		err = fmt.Errorf("there is no flaw %q", o.Flaw)
	case o.Workers < 1 || o.Callers < 1 || o.Keys < 1 || o.Long < 1 || o.MostWait < 0 ||
		o.BreakEvery < 0 ||
		o.TTL < minTTL:
		err = fmt.Errorf("-workers, -callers, -keys and -long are at least 1, -most-wait and "+
			"-break-every are not negative, and -ttl is at least %v", minTTL)
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "nemesis:", err)
	}
	return o, deployments, err
}
