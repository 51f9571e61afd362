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
)

func main() {
	if os.Getenv(childEnv) != "" {
		os.Exit(childMain(os.Stdin, os.Stdout, os.Stderr))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the program's flags.
type options struct {
	short    bool
	rounds   int
	run, who *regexp.Regexp
	leases   []int
	before   string // the folder of another checkout, "" to compare with none
	figures  bool   // print figures for a program to read, and no tables
	cores    string // whether they are kept awake
}

// section is one thing measured. A round notes each figure that it finds.
type section struct {
	name    string
	rounds  int // at most
	measure func(context.Context, options, *figures) error
}

// In this order they are measured. What is steady needs fewer rounds.
var sections = []section{
	{"cycles", 9, cycles},
	{"onekey", 3, oneKey},
	{"crowd", 3, crowd},
	{"hold", 3, hold},
	{"wait", 9, wait},
	{"limits", 9, limits},
	{"slots", 3, slots},
	{"break", 5, breaks},
	{"instructions", 1, instructions},
}

// run is the program: it returns the exit status, 2 for flags that make no
// sense.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	do := measure
	if o.before != "" {
		do = compare
	}
	o.cores = "not kept awake: the figures say nothing"
	if !o.short && !o.figures { // of these, the program that reads them keeps cores awake
		stop, err := keepAwake(ctx)
		if err == nil {
			defer stop()
			o.cores = "kept awake"
		} else {
			o.cores = "not kept awake: " + err.Error()
		}
	}
	if err := do(ctx, o, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (options, error) {
	o := options{leases: []int{1000, 10_000}}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.short, "short", false, "a smoke test of seconds, whose figures say nothing")
	flags.IntVar(&o.rounds, "rounds", 5, "rounds, of which the median counts")
	flags.StringVar(&o.before, "before", "", "compare Lockbeat with that of this `checkout`")
	flags.BoolVar(&o.figures, "figures", false, "print the figures as JSON, and no tables")
	for name, to := range map[string]**regexp.Regexp{"run": &o.run, "who": &o.who} {
		flags.Func(name, map[string]string{
			"run": "only the sections that match this `regexp`: cycles, onekey, crowd, hold, " +
				"wait, limits, slots, break, instructions",
			"who": "only the contestants that match this `regexp`: " + strings.Join(everyone, ", "),
		}[name], func(s string) (err error) {
			*to, err = regexp.Compile(s)
			return err
		})
	}
	flags.Func("leases", "for the section hold: how many leases, such as 1000,100000",
		func(s string) error {
			o.leases = nil
			for field := range strings.SplitSeq(s, ",") {
				n, err := strconv.Atoi(field)
				if err != nil || n < 1 {
					return fmt.Errorf("%q is no number of leases", field)
				}
				o.leases = append(o.leases, n)
			}
			return nil
		})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 || o.rounds < 1 {
		err := errors.New("there are no arguments but flags, and -rounds is at least 1")
		_, _ = fmt.Fprintln(stderr, "bench:", err)
		return o, err
	}
	if o.short {
		o.rounds, o.leases = 1, []int{100, 200}
	}
	return o, nil
}

// contestants are those that are asked for, of some.
func (o options) contestants(of ...string) (all []string) {
	for _, who := range of {
		if o.who == nil || o.who.MatchString(who) {
			all = append(all, who)
		}
	}
	return all
}

func measure(ctx context.Context, o options, w io.Writer) error {
	f := new(figures)
	for _, s := range sections {
		if o.run != nil && !o.run.MatchString(s.name) {
			continue
		}
		for range min(o.rounds, s.rounds) {
			if err := s.measure(ctx, o, f); err != nil {
				return fmt.Errorf("%s: %w", s.name, errors.Join(err, ctx.Err()))
			}
		}
	}
	if o.figures {
		return f.encode(w)
	}
	machine, err := describeMachine()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s; medians of %d rounds, fewer of some; cores %s\n%s%s", machine,
		o.rounds, o.cores, f.tables(), f.summary())
	return errors.Join(append(f.errs, err)...)
}
