package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// deaths is how a crowd of which most were killed did: when, after the release, the first survivor
// had the lock, how long the longest pause was between two of them, and when all had had it.
type deaths struct{ first, pause, all sample }

// deadCase is one contestant, and who of its waiters are killed.
type deadCase struct {
	who   string
	on    string // "" or "cluster"
	whose string
}

func (c deadCase) String() string {
	if c.on != "" {
		return c.who + ", " + c.on
	}
	return c.who
}

// deadWait bounds the wait of the survivors.
const deadWait = 60 * time.Second

const (
	firstInLine = "the first in line"
	anyInLine   = "anywhere in line"
)

// deadWaiters kills most of the processes that wait for a key, at once, while another holds it.
// Then that one frees it.
func deadWaiters(ctx context.Context, o options, w io.Writer) ([]target, error) {
	server, err := openServer()
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	cluster, err := redistest.OpenCluster(3, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = cluster.Close() }() // as above
	waiters, killed, rounds := 30, 20, min(o.rounds, 3)
	if o.short {
		waiters, killed, rounds = 3, 2, 1
	}
	cases := []deadCase{
		{lockbeat, "", firstInLine},
		{lockbeat, "", anyInLine},
		{lockbeat, "cluster", firstInLine},
		{redsyncRueidis, "", firstInLine},
		{peer, "", firstInLine},
		{redislock, "", firstInLine},
	}
	all := make([]deaths, len(cases))
	for round := range rounds {
		for i, c := range cases {
			d := deployment{addr: server.Addr()}
			if c.on != "" {
				d = deployment{addr: cluster.Masters[0].Addr(), cluster: true}
			}
			name := fmt.Sprintf("dead:%d:%d", i, round)
			err := within(2*deadWait, func() error {
				return all[i].round(ctx, c, d, name, waiters, killed)
			})
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			all[i].first.fail(err)
		}
	}
	t := table{{
		"", "killed", "the next live one has it after", "worst round", "longest later pause",
		"worst round", "all live ones have had it", "worst round", "",
	}}
	var targets []target
	for i, c := range cases {
		v := &all[i]
		t.add(c.String(), c.whose, msOf(v.first.median()), msOf(v.first.worst()),
			msOf(v.pause.median()), msOf(v.pause.worst()),
			msOf(v.all.median()), msOf(v.all.worst()), v.first.failed)
		if c.who == lockbeat {
			targets = append(targets, v.targets(fmt.Sprintf("%d of %d waiters killed, %s, %v: ",
				killed, waiters, c.whose, c))...)
		}
	}
	out := &printer{w: w}
	out.printf("\n## %d of %d waiting processes are killed (-9) at once, then the holder frees "+
		"the key (%d rounds)\n\n%s", killed, waiters, rounds, t)
	return targets, out.err
}

// targets are 2 s, once: what comes after the first has no dead to wait for.
func (v *deaths) targets(row string) []target {
	const firstMost, allMost = 2000, 2100
	fine := v.first.failed == "" && len(v.first.values) > 0
	return []target{
		{
			row + "the next live one has it after", msOf(v.first.worst()), "≤ 2 s",
			fine && v.first.worst() <= firstMost,
		},
		{
			row + "all live ones have had it", msOf(v.all.worst()), "≤ 2.1 s",
			fine && v.all.worst() <= allMost,
		},
	}
}

func (v *deaths) round(
	ctx context.Context, c deadCase, d deployment, name string, waiters, killed int,
) error {
	holder, err := newContender(c.who, d, cycleTTL)
	if err != nil {
		return err
	}
	defer func() { _ = within(endWithin, func() error { holder.close(); return nil }) }()
	_, let, err := locked(ctx, holder.mutex(name), cycleTTL)
	if err != nil {
		return err
	}
	children := make([]*childProcess, waiters)
	defer func() {
		for _, c := range children {
			if c != nil {
				_ = c.end(errNotEnded) // it is killed, if it was not before
			}
		}
	}()
	err = together(waiters, func(i int) (err error) {
		if children[i], err = startChild(ctx, childSpec{
			Who: c.who, Part: partWait, Addr: d.addr, Cluster: d.cluster, TTL: cycleTTL,
			Hold: deadWait,
		}); err != nil {
			return err
		}
		return children[i].said.Decode(new(ready))
	})
	if err != nil {
		return fmt.Errorf("a waiter did not begin: %w", err)
	}
	for _, child := range children { // in this order they stand in line
		if _, err := io.WriteString(child.stdin, name+"\n"); err != nil {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond)
	dead := slices.Clone(children[:killed])
	alive := slices.Clone(children[killed:])
	if c.whose == anyInLine {
		order := rand.Perm(waiters)
		for i := range order {
			if i < killed {
				dead[i] = children[order[i]]
			} else {
				alive[i-killed] = children[order[i]]
			}
		}
	}
	for _, child := range dead {
		if err := child.cmd.Process.Kill(); err != nil {
			return fmt.Errorf("kill: %w", err)
		}
	}
	time.Sleep(100 * time.Millisecond)
	if err := let(); err != nil {
		return err
	}
	return v.await(alive, time.Now().UnixNano())
}

// await hears of each survivor when it had the lock.
func (v *deaths) await(alive []*childProcess, freed int64) error {
	had := make([]float64, len(alive))
	err := together(len(alive), func(i int) error {
		var g got
		if err := alive[i].said.Decode(&g); err != nil {
			return fmt.Errorf("a waiter said nothing: %w", err)
		}
		if g.Err != "" {
			return errors.New(g.Err)
		}
		had[i] = ms(time.Duration(g.At - freed))
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(had)
	pause := 0.0
	for i := range had[1:] {
		pause = max(pause, had[i+1]-had[i])
	}
	v.first.add(had[0])
	v.pause.add(pause)
	v.all.add(had[len(had)-1])
	return nil
}
