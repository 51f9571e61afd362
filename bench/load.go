package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// loading is what the load is made of, and where it runs.
type loading struct {
	options

	redis     *redistest.Server
	keeper    *renewer.Keeper
	client    rueidis.Client // the keeper's
	generator *childProcess

	crowd int // concurrent requests
	keys  int
	span  time.Duration
}

// load lets a process of its own make requests of servers in this one, by each protocol: first
// a crowd of them over few keys, then one after the other to see what the lock adds to each.
func load(ctx context.Context, o options, w io.Writer) (targets []target, err error) {
	l := &loading{options: o, crowd: 1000, keys: 100, span: 10 * time.Second}
	if o.short {
		l.crowd, l.keys, l.span = 100, 10, time.Second
	}
	if l.redis, err = openServer(); err != nil {
		return nil, err
	}
	defer func() { _ = l.redis.Close() }() // it has no data that could be lost
	if l.keeper, l.client, err = connectKeeper(l.redis.Addr(), renewer.DefaultTTL); err != nil {
		return nil, err
	}
	if l.generator, err = startChild(ctx, childSpec{Who: generator}); err != nil {
		return nil, errors.Join(err, l.close(ctx))
	}
	targets, err = l.measure(ctx, &printer{w: w})
	if err := errors.Join(l.generator.end(err), l.close(ctx)); err != nil {
		return nil, err
	}
	ours, err := settle(func() (int, error) { return goroutinesOf(ourPackages...) }, 0)
	return append(targets, target{
		"load, goroutines of ours in the end", fmt.Sprint(ours), "0",
		ours == 0,
	}), err
}

// ourPackages serve requests.
var ourPackages = []string{
	"github.com/lockbeat/lockbeat/renewer", "github.com/lockbeat/lockbeat/renewer/redisstore",
	"github.com/lockbeat/lockbeat/lockmw",
	"github.com/lockbeat/lockbeat/lockmw/httpmw", "github.com/lockbeat/lockbeat/lockmw/grpcmw",
}

func (l *loading) close(ctx context.Context) error {
	err := l.keeper.Shutdown(context.WithoutCancel(ctx)) // every request has ended
	l.client.Close()
	return err
}

func (l *loading) measure(ctx context.Context, out *printer) ([]target, error) {
	var all []*crowd
	for _, protocol := range []string{overHTTP, overGRPC} {
		for _, k := range []*renewer.Keeper{l.keeper, nil} {
			c, err := l.crowdOn(protocol, k)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", protocol, err)
			}
			all = append(all, c)
		}
	}
	out.printf("\n## %d concurrent requests over %d keys for %v, %v of work each, from a process "+
		"of its own\n\n%s",
		l.crowd, l.keys, l.span, transferWork, crowdTable(all))
	var prices []*price
	for _, protocol := range []string{overHTTP, overGRPC} {
		p, err := l.priceOf(ctx, protocol)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", protocol, err)
		}
		prices = append(prices, p)
	}
	out.printf("\n## What the lock adds to a request, one after the other on one connection, a "+
		"key each, no work (medians of %d rounds of %d)\n\n%s",
		l.priceRounds(), slice, priceTable(prices))
	return slices.Concat(crowdTargets(all), priceTargets(prices)), out.err
}

// settle reads a figure until it is down to most, for a few seconds:
// what has ended is not always gone at once.
func settle(read func() (int, error), most int) (int, error) {
	over := time.NewTimer(5 * time.Second)
	defer over.Stop()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		n, err := read()
		if err != nil || n <= most {
			return n, err
		}
		select {
		case <-ticker.C:
		case <-over.C:
			return n, nil
		}
	}
}

func countGoroutines() (int, error) { return runtime.NumGoroutine(), nil }

// leaseKeys counts the locks that are held in Redis. The counters of fencing tokens stay.
func leaseKeys(server *redistest.Server) (int, error) {
	keys, err := server.Do("KEYS", "lockbeat:{*}").AsStrSlice()
	if err != nil {
		return 0, fmt.Errorf("KEYS: %w", err)
	}
	return len(keys), nil
}

// countsOf is "0", or the sum and how it comes about.
func countsOf(counts map[string]int) string {
	var parts []string
	all := 0
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		all += counts[what]
		parts = append(parts, fmt.Sprintf("%d × %s", counts[what], what))
	}
	if all == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%s)", all, strings.Join(parts, ", "))
}
