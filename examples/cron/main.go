// Cron has a schedule on four nodes, each a process of its own, whose clocks differ. Each tick is
// run once. One node is killed in the middle of a run, and the next tick is run elsewhere.
//
//	go run ./examples/cron                          # Redis runs inside the program
//	go run ./examples/cron -redis localhost:6379    # on your own, left as it was found
//
// It prints which node ran which tick, and which found it taken. The exit status is 1 if anything
// that it claims did not hold.
//
// Read app.go first: it is what you would write. main.go kills, and looks on.
package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
)

const (
	ticks = 4
	fatal = 1 // the tick in which the runner is killed, from 0
	runs  = "runs"
)

// ahead is by how much the clock of each node is.
var ahead = []time.Duration{
	0, 150 * time.Millisecond, -150 * time.Millisecond, 80 * time.Millisecond,
}

func main() {
	demo.Child(runNode)
	demo.Main(demo.Setting{Program: "cron"}, tell)
}

// role is what the story tells a node.
type role struct {
	Ahead time.Duration // of its clock
	Hang  int64         // the tick whose run does not come to its end
}

// tick numbers the ticks, by the clock of the node.
func (r role) tick() int64 { return time.Now().Add(r.Ahead).Truncate(every).UnixMilli() }

func (r role) work(ctx context.Context) error {
	if r.tick() == r.Hang {
		<-ctx.Done() // or until the process is killed
	}
	return context.Cause(ctx)
}

// skewed is a schedule by a clock that is ahead.
type skewed struct {
	cronmw.Schedule

	ahead time.Duration
}

func (s skewed) Next(t time.Time) time.Time { return s.Schedule.Next(t.Add(s.ahead)).Add(-s.ahead) }

func tell(ctx context.Context, d *demo.Demo) error {
	d.Print("%d nodes, each a process, have one schedule: a job every %v. Redis: %s.", len(ahead),
		every, d.Where())
	d.Print("Their clocks are off by up to %v. TTL of the locks: %v.", slices.Max(ahead), ttl)
	nodes := d.NewNodes()
	// By then all nodes have started.
	first := time.Now().Add(1500 * time.Millisecond).Truncate(every).Add(every)
	hang := first.Add(fatal * every).UnixMilli()
	for i, by := range ahead {
		if err := nodes.Start(ctx, fmt.Sprint("node-", i+1), ttl, role{by, hang}); err != nil {
			return err
		}
	}
	heard, killed := make(map[string][]string), "" // nodes by outcome and tick
	for over := time.After(time.Until(first.Add((ticks-1)*every + every/2))); over != nil; {
		select {
		case w := <-nodes.Words:
			if w.What == "" && w.Node != killed {
				return fmt.Errorf("%s has ended", w.Node)
			}
			what := key(w.What, time.UnixMilli(w.Number))
			heard[what] = append(heard[what], w.Node)
			if w.What == runs && w.Number == hang {
				killed = w.Node
				nodes.Kill(killed)
			}
		case <-over:
			over = nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	claim(d, heard, first, killed)
	return nil
}

func key(what string, tick time.Time) string { return what + tick.Format(" 15:04:05.0") }

// claim prints the ticks, and what is claimed of them.
func claim(d *demo.Demo, heard map[string][]string, first time.Time, killed string) {
	d.Title("Tick by tick")
	once, next := 0, ""
	for i := range ticks {
		at := first.Add(time.Duration(i) * every)
		began, taken := heard[key(runs, at)], heard[key("skipped", at)]
		if len(began) == 1 {
			once++
		}
		line := strings.Join(began, " and ") + " ran it"
		switch i {
		case fatal:
			line += ", and was killed in the middle"
		case fatal + 1:
			next = strings.Join(heard[key("ran", at)], " and ")
		}
		slices.Sort(taken)
		d.Print("  %s  %-44s taken: %s", at.Format("15:04:05.0"), line, strings.Join(taken, ", "))
	}
	d.Claim("each tick was begun once", once == ticks, "%d of %d", once, ticks)
	d.Claim("a node was killed in the middle of a run", killed != "", "%s", killed)
	d.Claim("the next tick was run elsewhere", next != "" && next != killed, "%s", next)
}
