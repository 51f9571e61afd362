// Takeover has eight workers, each a process of its own, which are all to see to it that one piece
// of work succeeds, once. Each attempt has a chance of 15 %; some kill their process. A worker that
// waits takes over, and in the end all have the same answer.
//
//	go run ./examples/takeover                          # Redis runs inside the program
//	go run ./examples/takeover -redis localhost:6379    # on your own, left as it was found
//	go run ./examples/takeover -seed 9                  # with other luck
//
// It prints which worker took over from which. The exit status is 1 if anything that it claims did
// not hold.
//
// Read app.go first: it is what you would write. main.go looks on, and dice.go decides on life and
// death.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

const (
	workers = 8
	// usualSeed has workers fail, die and succeed.
	usualSeed = 7
)

func main() {
	demo.Child(runWorker)
	seed := flag.Uint64("seed", usualSeed, "for the dice: a `number`")
	demo.Main(demo.Setting{Program: "takeover"}, func(ctx context.Context, d *demo.Demo) error {
		return tell(ctx, d, dice{*seed})
	})
}

// What a worker tells the story, beside what becomes of an attempt.
const (
	begins    = "begins"
	hasAnswer = "has the answer"
	hasNone   = "has none"
)

// course is how it went.
type course struct {
	begun, succeeded, dead, answered int
	answers                          map[string]int
	without                          []string // workers that ended without an answer, and why
	killed                           map[string]bool
}

func tell(ctx context.Context, d *demo.Demo, luck dice) error {
	d.Print("%d workers, each a process, want one report, which is to be written once. Redis: %s.",
		workers, d.Where())
	d.Print("An attempt succeeds with a chance of 15 %%; about one in four kills its process. At "+
		"most %d. TTL of the lock: %v.", attempts, ttl)
	nodes, err := d.NewNodes()
	if err != nil {
		return err
	}
	for i := range workers {
		if err := nodes.Start(ctx, fmt.Sprint("worker-", i+1), ttl, luck); err != nil {
			return err
		}
	}
	d.Title("Attempt by attempt")
	c := &course{answers: make(map[string]int), killed: make(map[string]bool)}
	for c.answered+len(c.without)+c.dead < workers {
		w, err := demo.Wait(ctx, nodes.Words)
		if err != nil {
			return err
		}
		if w.What == "" && !c.killed[w.Node] {
			return fmt.Errorf("%s has ended", w.Node)
		}
		c.hear(d, w)
	}
	c.claim(d, luck)
	return nil
}

func (c *course) hear(d *demo.Demo, w demo.Word) {
	switch w.What {
	case "":
		c.dead++
	case hasAnswer:
		c.answers[w.Note]++
		c.answered++
	case hasNone:
		c.without = append(c.without, w.Node+": "+w.Note)
	case begins:
		c.begun++
		text := "begins"
		if w.Note != "" {
			text = "takes over from " + w.Note
		}
		if c.killed[w.Note] {
			text += ", which was killed"
		}
		d.Event(w.Node, "attempt %d: %s", w.Number, text)
	default:
		c.killed[w.Node] = w.What == dies
		if w.What == succeeds {
			c.succeeded++
		}
		d.Event(w.Node, "           %s", w.What)
	}
}

// claim says what should have come of it: the dice are known.
func (c *course) claim(d *demo.Demo, luck dice) {
	begun, deaths, succeeded := luck.course()
	d.Title("In the end")
	for _, answer := range slices.Sorted(maps.Keys(c.answers)) {
		d.Print("  %d workers have the answer: %s", c.answers[answer], answer)
	}
	for _, why := range c.without {
		d.Print("  %s", why)
	}
	if !succeeded {
		d.Claim("no attempt succeeded, and all who live were told",
			c.succeeded == 0 && len(c.without)+c.dead == workers, "%d told, %d dead",
			len(c.without), c.dead)
		return
	}
	d.Claim("attempts, each counted, those that died too", c.begun == begun, "%d of %d", c.begun,
		begun)
	d.Claim("it succeeded once", c.succeeded == 1, "%d", c.succeeded)
	d.Claim("all who live have the same answer", len(c.answers) == 1 && len(c.without) == 0,
		"%d different, %d without", len(c.answers), len(c.without))
	d.Claim("workers killed, and taken over from", c.dead == deaths, "%d", c.dead)
}

// dice decide what becomes of each attempt.
type dice struct{ Seed uint64 }

// What becomes of an attempt.
const (
	fails    = "fails"
	dies     = "is killed"
	succeeds = "succeeds"
)

var errBadLuck = errors.New("bad luck")

// throw is for an attempt, whichever worker makes it.
func (d dice) throw(attempt int) string {
	luck := rand.New(rand.NewPCG(d.Seed, uint64(attempt))) //nolint:gosec // luck, not a secret
	switch {
	case luck.Float64() < 0.15:
		return succeeds
	case luck.IntN(3) == 0:
		return dies
	default:
		return fails
	}
}

// course is how it should go: how many attempts are begun, how many workers die, and whether one
// succeeds.
func (d dice) course() (begun, deaths int, succeeded bool) {
	for begun < attempts && !succeeded && deaths < workers {
		begun++
		switch d.throw(begun) {
		case succeeds:
			succeeded = true
		case dies:
			deaths++
		}
	}
	return begun, deaths, succeeded
}

// write is an attempt to write the report.
func (d dice) write(ctx context.Context, n *demo.Node, attempt int) (string, error) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	luck := d.throw(attempt)
	n.Tell(luck, int64(attempt), "")
	switch luck {
	case succeeds:
		return fmt.Sprintf("written by %s in attempt %d", n.Name, attempt), nil
	case dies:
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			_ = self.Kill()
			select {}
		}
	}
	return "", errBadLuck
}
