//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// roleEnv says which of the processes this is.
const roleEnv = "LOCKBEAT_SIEGE_ROLE"

func main() {
	switch role := os.Getenv(roleEnv); role {
	case "server":
		exit(serve(os.Args[1], os.Stdin, os.Stdout))
	case "attackers":
		exit(attack(os.Args[1:], os.Stdin))
	}
	os.Exit(besieged(os.Args[1:], os.Stdout, os.Stderr))
}

// besieged is the program: it returns the exit status.
func besieged(args []string, stdout, stderr io.Writer) int {
	p, err := parse(args, stderr)
	if err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := run(ctx, p)
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "siege:", err)
		return 1
	}
	if r.print(stdout) > 0 {
		return 1
	}
	return 0
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "siege:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// plan is what to do.
type plan struct {
	attackers int
	peace     time.Duration // in which honest clients are measured alone
	siege     time.Duration
	rate      int // honest requests a second
}

func parse(args []string, stderr io.Writer) (plan, error) {
	p := plan{}
	flags := flag.NewFlagSet("siege", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&p.attackers, "n", 10_000, "connections of attackers")
	flags.DurationVar(&p.siege, "for", 2*time.Minute, "how long they stay")
	flags.DurationVar(&p.peace, "peace", 20*time.Second,
		"how long honest clients are measured alone, before")
	flags.IntVar(&p.rate, "rate", 100, "honest requests a second")
	return p, flags.Parse(args)
}

// run carries a plan out.
func run(ctx context.Context, p plan) (*result, error) {
	redis, err := redistest.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = redis.Close() }()
	server, addr, err := spawnServer(redis.Addr())
	if err != nil {
		return nil, err
	}
	defer server.end()

	warm(ctx, addr, p)
	r := &result{plan: p}
	if r.before, err = look(addr); err != nil {
		return nil, err
	}
	r.peace = honest(ctx, addr, p.rate, p.peace)
	attackers, err := spawn("attackers", addr, fmt.Sprint(p.attackers))
	if err != nil {
		return nil, err
	}
	defer attackers.end()
	samples := sample(addr, p.siege)
	r.siege = honest(ctx, addr, p.rate, p.siege)
	r.samples = <-samples
	attackers.end()
	r.after, err = settle(ctx, addr, r.before)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, server.complaints.String())
	}
	return r, ctx.Err()
}

// warm lets connections and pools be made that stay.
func warm(ctx context.Context, addr string, p plan) {
	honest(ctx, addr, p.rate, min(p.peace, 3*time.Second))
}
