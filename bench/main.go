package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if spec := os.Getenv(childEnv); spec != "" {
		os.Exit(childMain(spec, os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the program's flags.
type options struct {
	short   bool
	rounds  int
	run     *regexp.Regexp
	sizes   []int          // of crowds, nil for those that count
	row     *regexp.Regexp // of sections that are made of parts
	profile string
	peers   bool
	before  string // the program of another checkout, or ""
	write   string // a folder of documents, or "" for none
	plots   *plots // of the section under way, nil if it is not published
}

// section is one thing measured. It writes its tables and returns how it stands with its targets.
type section struct {
	name    string
	measure func(ctx context.Context, o options, w io.Writer) ([]target, error)
}

// errMissed makes the exit status 1 when the figures are there but not good enough.
var errMissed = errors.New("a target was missed")

// run is the program: it returns the exit status, 2 for flags that make no sense.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	if err := measure(ctx, o, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.short, "short", false,
		"scale down to a smoke test of seconds; targets are not judged")
	flags.IntVar(&o.rounds, "rounds", 7,
		"rounds of cycles, overhead and load, and of most with -peers; the median counts")
	flags.StringVar(&o.profile, "profile", "", "write CPU and heap profiles to this folder")
	flags.BoolVar(&o.peers, "peers", false, "compare with every other library, instead")
	flags.StringVar(&o.write, "write", "",
		"with -peers: put results and plots into this folder's "+peersPage+
			", but those of a -short run, and of a part by -row or -sizes")
	flags.StringVar(&o.before, "before", "", "for the row uncontended: this program, built from "+
		"another checkout, to compare with")
	only := "measure only the sections that match this regexp: leases, cycles, server, overhead, " +
		"load; with -peers " + names(peerSections)
	flags.Func("run", only, func(s string) (err error) {
		o.run, err = regexp.Compile(s)
		return err
	})
	flags.Func("row", "measure only the rows of crowd and tasks that match this regexp: "+
		names(crowdRows)+"; "+names(taskRows), func(s string) (err error) {
		o.row, err = regexp.Compile(s)
		return err
	})
	flags.Func("sizes", "for the row handoffs: these sizes of crowd alone, such as 2,64",
		func(s string) error {
			for field := range strings.SplitSeq(s, ",") {
				size, err := strconv.Atoi(field)
				if err != nil || size < 2 {
					return fmt.Errorf("%q is no size of a crowd", field)
				}
				o.sizes = append(o.sizes, size)
			}
			return nil
		})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rounds < 1 {
		err := fmt.Errorf("there are no arguments but flags, and -rounds is at least 1")
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return o, err
	}
	return o, nil
}

func measure(ctx context.Context, o options, w io.Writer) error {
	machine, err := describeMachine()
	if err != nil {
		return err
	}
	out := &printer{w: w}
	out.printf("%s\n", machine)
	sections := []section{
		{"leases", leases},
		{"cycles", cycles},
		{"server", serverTime},
		{"overhead", overhead},
		{"load", load},
	}
	if o.peers {
		sections = peerSections
	}
	var targets []target
	for _, s := range sections {
		if o.run != nil && !o.run.MatchString(s.name) {
			continue
		}
		got, err := s.measured(ctx, o, machine, out)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		targets = append(targets, got...)
	}
	out.printf("\n## Targets\n\n")
	missed := writeTargets(out, targets, o.short)
	if out.err != nil {
		return out.err
	}
	if missed && !o.short {
		return errMissed
	}
	return nil
}

// measured measures a section, and publishes it if that is asked for.
func (s section) measured(
	ctx context.Context, o options, machine string, w io.Writer,
) ([]target, error) {
	whole := !o.short && o.row == nil && o.sizes == nil
	if !o.peers || o.write == "" || !whole {
		return s.measure(ctx, o, w)
	}
	o.plots = new(plots)
	var text strings.Builder
	targets, err := s.measure(ctx, o, io.MultiWriter(w, &text))
	if err != nil {
		return nil, err
	}
	results := fmt.Sprintf("\n%s, %s, `make bench-peers PEERSARGS='-run %s'`.\n%s\n",
		time.Now().UTC().Format(time.DateOnly), machine, s.name, strings.ReplaceAll(text.String(),
			"\n## ", "\n### "))
	var verdicts strings.Builder
	writeTargets(&verdicts, targets, false)
	return targets, publish(o.write, s.name, results+verdicts.String(), o.plots)
}

func names(sections []section) string {
	all := make([]string, len(sections))
	for i, s := range sections {
		all[i] = s.name
	}
	return strings.Join(all, ", ")
}
