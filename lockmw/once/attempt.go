package once

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Attempt is one try at the work.
type Attempt struct {
	// Number is which try it is, from 1 on.
	Number int
	// Max is how many there may be.
	Max int
	// Previous made the one before: node and process. Zero on the first.
	Previous store.Holder
}

type attemptKey struct{}

// Current is the innermost attempt that ctx belongs to; zero outside of [Do].
func Current(ctx context.Context) Attempt {
	a, _ := ctx.Value(attemptKey{}).(Attempt)
	return a
}
