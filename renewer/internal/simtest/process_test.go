package simtest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// process is one program, which lives several times.
type process struct {
	w     *world
	id    int
	dice  dice
	links int
	now   atomic.Pointer[life]
}

// life is one of a process: a keeper, and a link to the server, which a restart
// of the keeper alone leaves as it is.
type life struct {
	keeper *renewer.Keeper
	link   *link
	begun  int // keepers of the process
}

func newProcess(w *world, id int) *process {
	p := &process{w: w, id: id, dice: newDice(w.plan.seed, "process", id)}
	p.begin(p.newLink())
	return p
}

func (p *process) life() *life { return p.now.Load() }

func (p *process) keeper() *renewer.Keeper { return p.life().keeper }

func (p *process) newLink() *link {
	l := newLink(p.w, p.id, p.id+p.links*p.w.plan.processes)
	p.links++
	p.w.register(l)
	return l
}

func (p *process) begin(l *link) {
	cfg := p.w.plan.cfg
	cfg.Node, cfg.Log = fmt.Sprint(p.id), renewer.Silent
	begun := 0
	if before := p.now.Load(); before != nil {
		begun = before.begun
	}
	if p.w.plan.observed {
		cfg.Observer = &observer{w: p.w, link: l, dice: newDice(p.w.plan.seed, "observer", p.id, begun)}
	}
	k, err := renewer.New(l, cfg)
	if err != nil {
		panic(err) // the plan is at fault
	}
	p.now.Store(&life{k, l, begun + 1})
}

// restart ends the keeper, or kills the process, and begins another, now and
// then.
func (p *process) restart(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(p.dice.between(0, 20*p.w.plan.cfg.TTL)):
		}
		if p.w.plan.kills && p.dice.chance(.5) {
			p.kill(p.dice.chance(.5))
			p.begin(p.newLink())
			continue
		}
		p.shutdown(p.dice.between(0, 2*p.w.plan.cfg.TTL), false)
		p.begin(p.life().link)
	}
}

// kill ends the process without a word: nothing that it believes counts any
// more. Its machine dies with it, or the server hears at once that it is gone.
func (p *process) kill(machine bool) {
	l := p.life()
	p.w.trace.note(p.w.now(), "process %d is killed, its machine too: %t", p.id, machine)
	p.w.tally.count(killed)
	if machine {
		l.link.heard.Store(int64(p.w.now() + machineFor))
	}
	l.link.dead.Store(true)
	p.w.server.kill(l.link.inbox, p.w.now())
	p.w.ledger.kill(p.w, l.link)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = l.keeper.Shutdown(ctx) // for its goroutines: no request gets through
}

// machineFor is how long the server takes to find out that a machine is dead.
const machineFor = 20 * time.Second

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
