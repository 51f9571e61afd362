package simtest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// process is one program: a link to the server and a keeper, and after a restart another.
type process struct {
	w     *world
	id    int
	link  *link
	dice  dice
	begun int // keepers
	store atomic.Pointer[renewer.Keeper]
}

func newProcess(w *world, id int) *process {
	p := &process{w: w, id: id, link: newLink(w, id), dice: newDice(w.plan.seed, "process", id)}
	p.begin()
	return p
}

func (p *process) keeper() *renewer.Keeper { return p.store.Load() }

func (p *process) begin() {
	cfg := p.w.plan.cfg
	cfg.Node = fmt.Sprint(p.id)
	if p.w.plan.observed {
		cfg.Observer = &observer{w: p.w, dice: newDice(p.w.plan.seed, "observer", p.id, p.begun)}
	}
	k, err := renewer.New(p.link, cfg)
	if err != nil {
		panic(err) // the plan is at fault
	}
	p.store.Store(k)
	p.begun++
}

// restart ends the keeper and begins another, now and then.
func (p *process) restart(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(p.dice.between(0, 20*p.w.plan.cfg.TTL)):
		}
		p.shutdown(p.dice.between(0, 2*p.w.plan.cfg.TTL), false)
		p.begin()
	}
}

// shutdown ends the keeper. In calm weather it has no excuse to fail.
func (p *process) shutdown(within time.Duration, calm bool) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if !calm {
		p.w.server.close(p.id, p.w.now())
	}
	begun := p.w.now()
	p.w.trace.note(begun, "process %d shuts down within %v", p.id, within)
	p.w.tally.count(shutDown)
	err := p.keeper().Shutdown(ctx)
	p.w.trace.note(p.w.now(), "process %d has shut down: %v", p.id, err)
	if calm && err != nil {
		p.w.ledger.violate(leftover, "a shutdown in calm weather: %v", err)
	}
	if took := p.w.now() - begun; took > within {
		p.w.ledger.violate(hang, "a shutdown within %v took %v", within, took)
	}
}
