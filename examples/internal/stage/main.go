package stage

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

// Main is the main function of an example with two servers. It exits
// with 1 if anything that the story claims did not hold.
func Main(program string, tell Story) {
	set := Setting{Program: program}
	flag.StringVar(&set.Listen, "listen", "",
		"`host:port` for the first server, the port above for the second; both go on serving "+
			"afterwards")
	run(set, tell)
}

// Run is [Main] for an example without servers.
func Run(program string, tell Story) { run(Setting{Program: program}, tell) }

func run(set Setting, tell Story) {
	set.Out, set.Colour = os.Stdout, colours(os.Stdout)
	flag.StringVar(&set.Redis, "redis", "",
		"`host:port` of a Redis server to use in place of the embedded one")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "%s takes no arguments, but for its flags: %q\n", set.Program,
			flag.Args())
		os.Exit(2)
	}
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
