// Cron runs one schedule on four nodes, each a process of its own, two of which
// have clocks that are 90 s wrong. Each tick is run once. One node is killed in
// the middle of a run, and the next tick is run elsewhere. Redis is away at a
// tick, which is run when it is back. In the end all nodes are down for some
// ticks, and the last of these is run when one comes back.
//
//	go run ./examples/cron                          # Redis runs inside the program
//	go run ./examples/cron -redis localhost:6379    # on your own, left as it was found
//
// It prints which node ran which tick, and which found it taken. The exit
// status is 1 if anything that it claims did not hold.
//
// Read app.go first: it is what you would write. main.go kills, cuts links, and
// looks on.
package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	nodes  = 4
	ticks  = 4
	fatal  = 1 // the tick in which the runner is killed, from 0
	cut    = 3 // the tick at which Redis is away: from before it until after it
	before = time.Second
	after  = 200 * time.Millisecond
	night  = 2 * every // all nodes are down for longer than this
	runs   = "runs"
)

func main() {
	demo.Child(runNode)
	demo.Main(demo.Setting{Program: "cron"}, tell)
}

// role is what the story tells a node.
type role struct {
	Fatal int64 // the tick whose run kills the process
}

func (r role) work(ctx context.Context, run renewer.Run) error {
	if run.Due.UnixMilli() == r.Fatal {
		return demo.Die(ctx)
	}
	return context.Cause(ctx)
}

// story is what is known of it.
type story struct {
	*demo.Demo

	nodes  *demo.Nodes
	first  time.Time
	heard  map[string][]string // nodes by outcome and tick
	killed map[string]bool
	dawn   demo.Word // the first run after the night
}

func tell(ctx context.Context, d *demo.Demo) error {
	d.Print("%d nodes, each a process, have one schedule: a job every %v. TTL of the locks: %v. "+
		"Redis: %s.", nodes, every, ttl, d.Where())
	all, err := d.NewNodes()
	if err != nil {
		return err
	}
	s := &story{
		Demo: d, nodes: all, heard: make(map[string][]string),
		killed: make(map[string]bool),
		first:  time.Now().Add(4 * time.Second).Truncate(every).Add(every), // all are there
	}
	for i := range nodes {
		r := role{s.at(fatal).UnixMilli()}
		if err := all.Start(ctx, fmt.Sprint("node-", i+1), ttl, r); err != nil {
			return err
		}
	}
	if err := s.play(ctx); err != nil {
		return err
	}
	s.claim()
	return nil
}

// at is when a tick is due.
func (s *story) at(tick int) time.Time { return s.first.Add(time.Duration(tick) * every) }

// play has it all happen.
func (s *story) play(ctx context.Context) error {
	if err := s.listen(ctx, s.at(cut).Add(-before)); err != nil {
		return err
	}
	s.Stop(1)
	if err := s.listen(ctx, s.at(cut).Add(after)); err != nil {
		return err
	}
	s.Resume()
	if err := s.listen(ctx, s.at(ticks).Add(-every/2)); err != nil {
		return err
	}
	for i := range nodes {
		s.kill(fmt.Sprint("node-", i+1))
	}
	if err := s.listen(ctx, s.at(ticks).Add(night)); err != nil {
		return err
	}
	if err := s.nodes.Start(ctx, "dawn", ttl, role{}); err != nil {
		return err
	}
	return s.listen(ctx, time.Now().Add(time.Minute)) // until it runs the tick
}

// listen hears what nodes tell, until an instant, or the first run after the
// night.
func (s *story) listen(ctx context.Context, until time.Time) error {
	for over := time.After(time.Until(until)); ; {
		select {
		case w := <-s.nodes.Words:
			if w.What == "" && !s.killed[w.Node] {
				return fmt.Errorf("%s has ended", w.Node)
			}
			if w.Node == "dawn" && w.What == runs {
				s.dawn = w
				return nil
			}
			what := key(w.What, time.UnixMilli(w.Number))
			s.heard[what] = append(s.heard[what], w.Node)
			if w.What == runs && w.Number == s.at(fatal).UnixMilli() {
				s.killed[w.Node] = true
			}
		case <-over:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *story) kill(node string) {
	s.killed[node] = true
	s.nodes.Kill(node)
}

func key(what string, tick time.Time) string { return what + tick.Format(" 15:04:05.0") }

// claim prints the ticks, and what is claimed of them.
func (s *story) claim() {
	s.Title("Tick by tick")
	once, next, killed := 0, "", ""
	for i := range ticks {
		at := s.at(i)
		began, taken := s.heard[key(runs, at)], s.heard[key("skipped", at)]
		if len(began) == 1 {
			once++
		}
		line := strings.Join(began, " and ") + " ran it"
		switch i {
		case fatal:
			killed = strings.Join(began, " and ")
			line += ", and was killed in the middle"
		case fatal + 1:
			next = strings.Join(s.heard[key("ran", at)], " and ")
		case cut:
			line += ", when Redis was back"
		}
		slices.Sort(taken)
		s.Print("  %s  %-44s taken: %s", at.Format("15:04:05.0"), line, strings.Join(taken, ", "))
	}
	s.Claim("each tick was begun once", once == ticks, "%d of %d", once, ticks)
	s.Claim("the next tick was run elsewhere", next != "" && next != killed, "%s", next)
	s.Claim("the tick at which Redis was away was run",
		len(s.heard[key(runs, s.at(cut))]) == 1, "%s", s.at(cut).Format("15:04:05.0"))
	missed := time.UnixMilli(s.dawn.Number).Sub(s.at(ticks)) / every
	s.Claim("the last tick of the night was run, and the others told of",
		s.dawn.Node != "" && missed > 0 && s.dawn.Note == fmt.Sprint(int(missed)),
		"%s missed before it", s.dawn.Note)
}
