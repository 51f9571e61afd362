// Package demo is what the examples share: Redis servers that can be cut off,
// nodes with locks, printing, and a table of claims at the end. It is for this
// repository's examples only.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// mostTime is how long a story may take. It takes seconds; a busy machine has
// it take several times that, and is no reason to say that something did not
// hold.
const mostTime = time.Minute

// Setting is how a story is told.
type Setting struct {
	Program string // its name
	Servers int    // how many Redis servers to start inside the program: 1 by default
	Redis   string // "host:port,..." of servers to use in place of those
	Out     io.Writer
	// Apart gives each node locks of its own, as a wrong configuration would.
	// It is for tests, which see the verdict fail.
	Apart bool
}

// Story is told once. Its error is why it did not come to its end.
type Story func(context.Context, *Demo) error

// Demo is what a story has to work with.
type Demo struct {
	*page

	Name    string   // of this run: every key in Redis begins with it
	Servers []*Redis // at least one

	setting Setting
	claims  []claim
	ends    []func(context.Context) error
}

// Main is the main function of an example. It exits with 1 if anything that the
// story claims did not hold.
func Main(set Setting, tell Story) {
	set.Out = os.Stdout
	flag.StringVar(&set.Redis, "redis", "",
		"`host:port` of a Redis server to use in place of the embedded one, or several: a:1,b:1,…")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	held, err := Play(ctx, set, tell)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", set.Program, err)
	}
	if err != nil || !held {
		os.Exit(1)
	}
}

// Play tells a story and reports whether all that it claimed held. The error is
// not nil if the story could not begin, or if something that it began could not
// be ended.
func Play(ctx context.Context, set Setting, tell Story) (held bool, err error) {
	d := &Demo{
		page: &page{out: set.Out, begun: time.Now()}, setting: set,
		Name: set.Program + "-" + strings.ToLower(rand.Text()[:10]),
	}
	defer func() { err = errors.Join(err, d.end()) }()
	if err := d.openServers(); err != nil {
		return false, err
	}
	timed, cancel := context.WithTimeoutCause(ctx, mostTime, errors.New("the story took too long"))
	defer cancel()
	var faults []string
	if err := tell(timed, d); ctx.Err() != nil {
		faults = append(faults, context.Cause(ctx).Error())
	} else if err != nil {
		if len(d.claims) == 0 {
			return false, err
		}
		faults = append(faults, err.Error())
	}
	d.Resume()
	d.claimNothingLeft(context.WithoutCancel(ctx))
	took := time.Since(d.begun)
	d.Claim("time", took < mostTime, "%s", Span(took))
	return d.verdict(faults), nil
}

// AtEnd has f called when all is over, the last one first.
func (d *Demo) AtEnd(f func(context.Context) error) { d.ends = append(d.ends, f) }

// end ends all that was begun.
func (d *Demo) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	d.Resume()
	var faults []error
	for _, f := range slices.Backward(d.ends) {
		faults = append(faults, f(ctx))
	}
	return errors.Join(faults...)
}

// claim is a row of the table: what was promised, what happened, and whether it
// held.
type claim struct {
	what, value string
	held        bool
}

// Claim adds a row to the table at the end; format and args say what happened.
func (d *Demo) Claim(what string, held bool, format string, args ...any) {
	d.claims = append(d.claims, claim{what, fmt.Sprintf(format, args...), held})
}

// verdict prints the table and reports whether everything held. broken is what
// did not hold yet.
func (d *Demo) verdict(broken []string) bool {
	d.Title("What was promised, and what happened")
	for _, c := range d.claims {
		mark := "ok"
		if !c.held {
			mark = "BROKEN"
			broken = append(broken, c.what+": "+c.value)
		}
		d.Print("  %-60s %-52s %s", c.what, c.value, mark)
	}
	d.Print("")
	if len(broken) > 0 {
		d.Print("It did not hold: %s.", strings.Join(broken, "; "))
		return false
	}
	d.Print("All of it held.")
	return true
}
