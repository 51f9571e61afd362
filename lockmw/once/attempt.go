package once

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// Attempt is one try at the work.
type Attempt struct {
	// Number is which try it is, from 1 on.
	Number int
	// Max is how many there may be: no other follows that one.
	Max int
	// Previous made the one before, which did not come to its end:
	// node and process. Its zero value on the first.
	Previous store.Holder
}

type attemptKey struct{}

// Current is the attempt that ctx belongs to: the innermost, if there
// are several. Its zero value outside of [Do].
func Current(ctx context.Context) Attempt {
	a, _ := ctx.Value(attemptKey{}).(Attempt)
	return a
}
