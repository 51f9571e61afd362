// Takeover runs eight workers, each a process of its own, that all want one
// piece of work to succeed, once. Each attempt has a chance of 15 %; some kill
// their process. A worker that waits takes over, and in the end all have the
// same answer.
//
//	go run ./examples/takeover                          # Redis runs inside the program
//	go run ./examples/takeover -redis localhost:6379    # on your own, left as it was found
//
// It prints which worker took over from which. The exit status is 1 if anything
// that it claims did not hold.
//
// Read app.go first: it is what you would write. main.go looks on, and decides
// on life and death.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

const (
	workers = 8
	seed    = 7  // of the dice: has workers fail, die and succeed
	begun   = 12 // attempts that come of it: the last one succeeds
	deaths  = 2  // and those that kill their process
)

func main() {
	demo.Child(runWorker)
	demo.Main(demo.Setting{Program: "takeover"}, tell)
}

// What a worker tells the story, beside what becomes of an attempt.
const (
	begins = "begins"
	ends   = "ends"
)

// course is how it went.
type course struct {
	begun, succeeded, dead, ended int
	answers                       map[string]int // how many workers have each
	killed                        map[string]bool
}

func tell(ctx context.Context, d *demo.Demo) error {
	d.Print("%d workers, each a process, want one report, which is to be written once. Redis: %s.",
		workers, d.Where())
	d.Print("An attempt succeeds with a chance of 15 %%; about one in four kills its process. At "+
		"most %d. TTL of the lock: %v.", attempts, ttl)
	nodes, err := d.NewNodes()
	if err != nil {
		return err
	}
	for i := range workers {
		if err := nodes.Start(ctx, fmt.Sprint("worker-", i+1), ttl, struct{}{}); err != nil {
			return err
		}
	}
	d.Title("Attempt by attempt")
	c := &course{answers: make(map[string]int), killed: make(map[string]bool)}
	for c.ended+c.dead < workers {
		w, err := demo.Wait(ctx, nodes.Words)
		if err != nil {
			return err
		}
		if w.What == "" && !c.killed[w.Node] {
			return fmt.Errorf("%s has ended", w.Node)
		}
		c.hear(d, w)
	}
	d.Title("In the end")
	for _, answer := range slices.Sorted(maps.Keys(c.answers)) {
		d.Print("  %d workers have the answer: %s", c.answers[answer], answer)
	}
	d.Claim("attempts, each counted, those that died too", c.begun == begun, "%d of %d", c.begun,
		begun)
	d.Claim("it succeeded once", c.succeeded == 1, "%d", c.succeeded)
	d.Claim("all who live have the same answer", len(c.answers) == 1, "%d different",
		len(c.answers))
	d.Claim("workers killed, and taken over from", c.dead == deaths, "%d", c.dead)
	return nil
}

func (c *course) hear(d *demo.Demo, w demo.Word) {
	switch w.What {
	case "":
		c.dead++
	case ends:
		c.answers[w.Note]++
		c.ended++
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

// What becomes of an attempt.
const (
	fails    = "fails"
	dies     = "is killed"
	succeeds = "succeeds"
)

// throw decides what becomes of an attempt, whichever worker makes it.
func throw(attempt int) string {
	luck := rand.New(rand.NewPCG(seed, uint64(attempt))) //nolint:gosec // luck, not a secret
	switch {
	case luck.Float64() < 0.15:
		return succeeds
	case luck.IntN(3) == 0:
		return dies
	default:
		return fails
	}
}

// write is an attempt to write the report.
func write(ctx context.Context, n *demo.Node, attempt int) (string, error) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	luck := throw(attempt)
	n.Tell(luck, int64(attempt), "")
	switch luck {
	case succeeds:
		return fmt.Sprintf("written by %s in attempt %d", n.Name, attempt), nil
	case dies:
		return "", demo.Die(ctx)
	}
	return "", errors.New("bad luck")
}
