package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

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
