// Migrate moves one program from locks in memory to one Redis, and from there
// to five servers of which any two may fail. Each move changes one line.
//
//	go run ./examples/migrate                                  # needs nothing else: five Redis servers run inside the program
//	go run ./examples/migrate -redis a:6379,b:6379,c:6379      # on your own, an odd number; they are left as they were found
//
// Two box offices sell the same tickets, under a lock that the code which sells never sees.
// In each of the three worlds the program prints what it sold, and what happens when servers
// are gone in the middle. The exit status is 1 if anything that it claims did not hold.
//
// The lines that change are in store.go. What they don't reach is in
// office.go. The rest plays the crowd and the accidents.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"
)

// mostTime is how long the whole of it may take.
const mostTime = 20 * time.Second

func main() {
	redis := flag.String("redis", "",
		"`host:port,...` of an odd number of Redis servers to use in place of the embedded ones")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "migrate takes no arguments, but for -redis host:port,...: %q\n",
			flag.Args())
		os.Exit(2)
	}
	var addrs []string
	if *redis != "" {
		addrs = strings.Split(*redis, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	held, err := run(ctx, &page{out: os.Stdout}, addrs, worlds)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "migrate: %v\n", err)
	}
	if err != nil || !held {
		os.Exit(1)
	}
}
