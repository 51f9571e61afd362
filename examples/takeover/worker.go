package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	attempts = 20
	// ttl is that of the lock: so long others wait for a worker that was killed.
	ttl = 1500 * time.Millisecond
	// long is how long an attempt takes.
	long = 100 * time.Millisecond
)

// role is what the story tells a worker.
type role struct{ Seed uint64 }

// word is what a worker tells the story.
type word struct {
	What     string
	Attempt  int
	Previous string // who made the attempt before
	Answer   string
}

const (
	ready     = "ready"
	begins    = "begins"
	fails     = "fails"
	dies      = "dies"
	succeeds  = "succeeds"
	hasAnswer = "has the answer"
	hasNone   = "has none"
)

var errBadLuck = errors.New("bad luck")

// act is a worker.
func act(
	ctx context.Context, k *renewer.Keeper, name string, raw json.RawMessage, tell func(any),
) error {
	var r role
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	tell(word{What: ready})
	answer, err := once.Do(ctx, k, "report:2026-11", func(ctx context.Context) (string, error) {
		a := once.Current(ctx)
		tell(word{What: begins, Attempt: a.Number, Previous: a.Previous.Node})
		select {
		case <-time.After(long):
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		luck := r.luck(a.Number)
		tell(word{What: luck, Attempt: a.Number})
		switch luck {
		case dies:
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return "", err
			}
			_ = self.Kill()
			select {}
		case succeeds:
			return fmt.Sprintf("written by %s in attempt %d", name, a.Number), nil
		default:
			return "", errBadLuck
		}
	}, once.MaxAttempts(attempts), once.Keep(time.Minute), once.RetryIn(
		time.Second,
	), once.Operation("report"))
	if err != nil {
		tell(word{What: hasNone, Answer: err.Error()})
	} else {
		tell(word{What: hasAnswer, Answer: answer})
	}
	<-ctx.Done()
	return nil
}

// luck throws the dice for an attempt, whoever makes it.
func (r role) luck(attempt int) string {
	dice := rand.New(rand.NewPCG(r.Seed, uint64(attempt))) //nolint:gosec // luck, not a secret
	switch {
	case dice.Float64() < 0.15:
		return succeeds
	case dice.IntN(3) == 0:
		return dies
	default:
		return fails
	}
}
