// Takeover has eight workers, each a process of its own, who are all to see to it
// that one piece of work succeeds, once. Each attempt has a chance of 15 %; some kill
// their process. Whoever waits takes over, and in the end all have the same answer.
//
//	go run ./examples/takeover                             # needs nothing else: Redis runs inside the program
//	go run ./examples/takeover -redis localhost:6379       # on your own server, which is left as it was found
//	go run ./examples/takeover -seed 9                     # with other luck
//
// It prints who took over from whom. The exit status is 1 if anything that it claims did not hold.
//
// What you would write yourself is in worker.go. The rest throws the dice, and looks on: story.go.
package main

import (
	"context"
	"flag"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
)

func main() {
	stage.Child(act)
	seed := flag.Uint64("seed", usualSeed, "for the dice: a `number`")
	stage.Run("takeover", func(ctx context.Context, s *stage.Stage) error {
		return tell(ctx, s, *seed)
	})
}
