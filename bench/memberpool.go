package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// mostProcesses is how many processes a crowd has at most. Of a larger one each process has several
// members, with clients and keepers of their own: the ring, Lockbeat and its peers alike. With 64
// processes on two cores the caches are cold at each turn, which the ring pays for as well.
const mostProcesses = 8

// memberPool is the processes whose members contend, started once for all rounds: a round costs
// no start of a process, and the contestants can take turns at it.
type memberPool struct{ children []*childProcess }

func startPool(ctx context.Context, processes int) (*memberPool, error) {
	p := &memberPool{make([]*childProcess, processes)}
	err := together(processes, func(i int) (err error) {
		if p.children[i], err = startChild(ctx, childSpec{Part: partMember}); err != nil {
			return err
		}
		return p.children[i].said.Decode(new(ready))
	})
	if err != nil {
		p.close()
		return nil, fmt.Errorf("a process did not begin: %w", err)
	}
	return p, nil
}

// close kills the processes: they hold nothing that is wanted.
func (p *memberPool) close() {
	for _, c := range p.children {
		if c != nil {
			_ = c.end(errNotEnded)
		}
	}
}

// turnsTaken is how a crowd did in one round.
type turnsTaken struct {
	joined

	redis time.Duration // processor time of all servers
	span  time.Duration
}

func (t *turnsTaken) rate() float64 {
	if t.span == 0 {
		return 0 // it failed
	}
	return float64(t.total()) / t.span.Seconds()
}

// each is a processor time in us, a hand-off.
func (t *turnsTaken) each(of time.Duration) float64 {
	return of.Seconds() * 1e6 / float64(max(t.total(), 1))
}

// round lets a crowd of j.Of members contend once.
func (p *memberPool) round(
	ctx context.Context, j joining, servers []*redistest.Server,
) (*turnsTaken, error) {
	taken := &turnsTaken{span: j.Span}
	err := within(j.Warm+j.Span+12*endWithin, func() error {
		children, err := p.join(j)
		if err != nil {
			return err
		}
		return taken.run(children, j, servers)
	})
	return taken, errors.Join(err, ctx.Err())
}

// join makes as many members of the processes as j wants, and waits until all are connected.
func (p *memberPool) join(j joining) ([]*childProcess, error) {
	processes := min(j.Of, len(p.children))
	children := p.children[:processes]
	err := together(processes, func(i int) error {
		mine := j
		mine.First = i * j.Of / processes
		mine.Members = (i+1)*j.Of/processes - mine.First
		if err := json.NewEncoder(children[i].stdin).Encode(mine); err != nil {
			return err
		}
		var answer joining
		if err := children[i].said.Decode(&answer); err != nil {
			return err
		}
		if answer.Err != "" {
			return errors.New(answer.Err)
		}
		return nil
	})
	return children, err
}

func (t *turnsTaken) run(children []*childProcess, j joining, servers []*redistest.Server) error {
	results := make([]joined, len(children))
	err := together(len(children)+1, func(i int) (err error) {
		if i == len(children) {
			t.redis, err = redisMeanwhile(servers, j.Warm, j.Span)
			return err
		}
		if _, err := children[i].stdin.Write([]byte("go\n")); err != nil {
			return err
		}
		return children[i].said.Decode(&results[i])
	})
	for _, r := range results {
		t.add(r)
	}
	return err
}

// redisMeanwhile is the processor time that the servers use in a span that begins after a time.
func redisMeanwhile(servers []*redistest.Server, warm, span time.Duration) (time.Duration, error) {
	all := func() (sum time.Duration, err error) {
		for _, s := range servers {
			used, err := serverCPU(s)
			if err != nil {
				return 0, err
			}
			sum += used
		}
		return sum, nil
	}
	time.Sleep(warm)
	before, err := all()
	if err != nil {
		return 0, err
	}
	time.Sleep(span)
	after, err := all()
	return after - before, err
}
