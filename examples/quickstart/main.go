// Quickstart shows Lockbeat at work. Two asynq servers, "node-a" and "node-b", render
// reports for five users. Of each user's reports only one may be rendered at a time, on
// whichever node; the code that renders them knows nothing of that. In the middle, the
// link between one node and the lock server is cut while the node works on a long report.
//
//	go run ./examples/quickstart                          # needs nothing else: Redis runs inside the program
//	go run ./examples/quickstart -redis localhost:6379    # on your own server, which is left as it was found
//
// It prints what happens as it happens, then what was measured. The
// exit status is 1 if anything that Lockbeat promises did not hold.
//
// What you would write yourself is in node.go and report.go. The rest plays
// the accident and looks on: story.go says what happens when, witness.go
// measures, reporter.go listens to the locks, verdict.go judges.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

// mostTime is how long the whole of it may take.
const mostTime = 20 * time.Second

func main() {
	address := flag.String("redis", "",
		"`host:port` of a Redis server to use in place of the embedded one")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "quickstart takes no arguments, but for -redis host:port: %q\n",
			flag.Args())
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	held := show(ctx, os.Stdout, *address)
	stop()
	if !held {
		os.Exit(1)
	}
}

// show runs the story, prints it, and tells whether all of it held.
func show(ctx context.Context, out *os.File, address string) bool {
	t := newTimeline(out, colours(out))
	f, err := run(ctx, t, address)
	if err != nil {
		fmt.Fprintf(os.Stderr, "quickstart: %v\n", err)
		return false
	}
	return t.close(f)
}
