package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// onCluster is Lockbeat on three nodes.
const onCluster = "Lockbeat, cluster"

// handing is how one contestant did with one size of crowd, in all rounds.
type handing struct {
	rate, client, redis, jain sample // hand-offs/s; us a hand-off; Jain's index
	failed                    int
}

// handOver is the hand-offs of crowds that want one key.
type handOver struct {
	pool       *memberPool
	server     *redistest.Server
	cluster    *redistest.Cluster
	sizes      []int
	contenders []string
	warm, span time.Duration
	results    map[int]map[string]*handing
}

// handOffs lets crowds of members, a process each, hand one key over. They do no work.
func handOffs(ctx context.Context, o options, w io.Writer) (targets []target, err error) {
	h := &handOver{
		sizes: []int{2, 64, 256}, warm: 400 * time.Millisecond, span: 600 * time.Millisecond,
		contenders: []string{lockbeat, ring, onCluster, redsyncRueidis, peer, redislock},
		results:    make(map[int]map[string]*handing),
	}
	rounds := 2 * o.rounds
	if o.short {
		h.sizes, h.warm, rounds = []int{2, 4, 9}, h.warm/5, 1
	}
	if o.sizes != nil {
		h.sizes = o.sizes
	}
	if err := h.open(ctx, o.short); err != nil {
		return nil, errors.Join(err, h.close())
	}
	defer func() { err = errors.Join(err, h.close()) }()
	for round := range rounds {
		for _, size := range h.sizes {
			if err := h.round(ctx, size, round); err != nil {
				return nil, err
			}
		}
	}
	out := &printer{w: w}
	for _, size := range h.sizes {
		out.printf("\n## Hand-overs of one key, %d members in %d processes (medians of %d rounds "+
			"of %v)\n\n%s", size, min(size, mostProcesses), rounds, h.span, h.table(size))
		o.plots.add(fmt.Sprintf("crowd-%d", size), fmt.Sprintf("One key, %d processes: hand-offs "+
			"a second", size), "hand-offs/s", func(who string) float64 {
			return h.of(size, who).rate.median()
		})
	}
	return h.targets(), out.err
}

func (h *handOver) open(ctx context.Context, short bool) (err error) {
	processes := mostProcesses
	if short {
		processes = 4
	}
	if h.server, err = openServer(); err != nil {
		return err
	}
	if h.cluster, err = redistest.OpenCluster(3, 0); err != nil {
		return err
	}
	h.pool, err = startPool(ctx, processes)
	return err
}

func (h *handOver) close() error {
	var errs []error
	if h.pool != nil {
		h.pool.close()
	}
	if h.cluster != nil {
		errs = append(errs, h.cluster.Close())
	}
	if h.server != nil {
		errs = append(errs, h.server.Close())
	}
	return errors.Join(errs...)
}

func (h *handOver) of(size int, who string) *handing {
	if h.results[size] == nil {
		h.results[size] = make(map[string]*handing)
	}
	if h.results[size][who] == nil {
		h.results[size][who] = new(handing)
	}
	return h.results[size][who]
}

// peerRounds is in how many rounds the peers take part, whose figures nothing hangs on.
const peerRounds = 2

// round lets each contestant run once, in any order, so that none always follows the same one.
func (h *handOver) round(ctx context.Context, size, round int) error {
	for _, i := range rand.Perm(len(h.contenders)) {
		who := h.contenders[i]
		own := who == lockbeat || who == ring || who == onCluster
		if !own && round >= peerRounds {
			continue
		}
		j := joining{
			Who: who, Addr: h.server.Addr(), Name: fmt.Sprintf("hand:%d:%s:%d", size, who, round),
			Of: size, TTL: cycleTTL, Warm: h.warm, Span: h.span,
		}
		servers := []*redistest.Server{h.server}
		if who == onCluster {
			j.Who, j.Addr, j.Cluster, servers = lockbeat, h.cluster.Masters[0].Addr(), true,
				h.cluster.Masters
		}
		taken, err := h.pool.round(ctx, j, servers)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h.of(size, who).add(taken, err)
		if err != nil { // some process may still be in that round
			h.pool.close()
			if h.pool, err = startPool(ctx, len(h.pool.children)); err != nil {
				return err
			}
		}
	}
	return nil
}

// add takes in a round, also one that failed: a round's figures have the same place everywhere.
func (g *handing) add(taken *turnsTaken, err error) {
	if err != nil {
		g.rate.fail(err)
		taken = new(turnsTaken)
	}
	g.rate.add(taken.rate())
	g.client.add(taken.each(taken.CPU))
	g.redis.add(taken.each(taken.redis))
	g.jain.add(jain(taken.Counts))
	g.failed += taken.Failed
	if taken.Err != "" {
		g.rate.fail(errors.New(taken.Err))
	}
}

// ratios are a figure to another's in the same round.
func ratios(a, b *sample) (all []float64) {
	for i := range min(len(a.values), len(b.values)) {
		if b.values[i] > 0 {
			all = append(all, a.values[i]/b.values[i])
		}
	}
	return all
}

// ratioOf is the median of ratios, NaN if there is none.
func ratioOf(a, b *sample) float64 {
	if all := ratios(a, b); len(all) > 0 {
		return median(all)
	}
	return math.NaN()
}

func (h *handOver) table(size int) table {
	t := table{{
		"", "hand-offs/s", "÷ ring", "worst, best round", "client CPU µs each",
		"Redis CPU µs each", "Jain index", "failed", "",
	}}
	floor := &h.of(size, ring).rate
	for _, who := range h.contenders {
		g := h.of(size, who)
		t.add(who, fmt.Sprintf("%.0f", g.rate.median()),
			fmt.Sprintf("%.2f", ratioOf(&g.rate, floor)),
			fmt.Sprintf("%.0f, %.0f", quantileOf(g.rate.values, 0), quantileOf(g.rate.values, 1)),
			fmt.Sprintf("%.0f", g.client.median()), fmt.Sprintf("%.0f", g.redis.median()),
			fmt.Sprintf("%.3f", g.jain.median()), fmt.Sprint(g.failed), g.rate.failed)
	}
	return t
}

func (h *handOver) targets() (targets []target) {
	const floorLeast, sizeLeast, cpuMost, clusterLeast = 0.7, 0.7, 1.3, 0.8
	few, many := h.sizes[0], h.sizes[min(1, len(h.sizes)-1)]
	for _, size := range h.sizes {
		targets = append(targets, atLeast(fmt.Sprintf("crowd of %d, hand-offs/s ÷ ring", size),
			ratioOf(&h.of(size, lockbeat).rate, &h.of(size, ring).rate), floorLeast))
	}
	row := fmt.Sprintf("crowd of %d ÷ crowd of %d, ", many, few)
	a, b := h.of(many, lockbeat), h.of(few, lockbeat)
	targets = append(targets,
		atLeast(row+"hand-offs/s", ratioOf(&a.rate, &b.rate), sizeLeast),
		atMost(row+"client CPU of a hand-off", ratioOf(&a.client, &b.client), cpuMost),
		atMost(row+"Redis CPU of a hand-off", ratioOf(&a.redis, &b.redis), cpuMost))
	for _, size := range h.sizes {
		targets = append(targets, atLeast(fmt.Sprintf("crowd of %d, cluster ÷ standalone", size),
			ratioOf(&h.of(size, onCluster).rate, &h.of(size, lockbeat).rate), clusterLeast))
	}
	return targets
}
