package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
)

const (
	nodes = 5
	ticks = 6
	third = 2 // the tick in which the runner is killed, from 0
)

// ahead is by how much each node's clock is.
var ahead = [nodes]time.Duration{
	0, 150 * time.Millisecond, -150 * time.Millisecond,
	80 * time.Millisecond, -40 * time.Millisecond,
}

// log is what was heard of one tick.
type log struct {
	began, ran, skipped []string
	other               []string // anything else
}

func tell(ctx context.Context, s *stage.Stage) error {
	s.Print("%d nodes, each a process, have one schedule: every %v, a job of a millisecond. "+
		"Redis: %s.", nodes, every, s.Where())
	s.Print("Their clocks are off by up to %v. TTL of the locks: %v.", slices.Max(ahead[:]), ttl)

	words := make(chan stage.Word)
	crew := make(map[string]*stage.Member)
	// nodes have started by then
	first := time.Now().Add(2 * time.Second).Truncate(every).Add(every)
	for i := range nodes {
		name := fmt.Sprint("node-", i+1)
		m, err := s.Join(ctx, name, ttl, role{ahead[i], first.Add(third * every).UnixMilli()},
			words)
		if err != nil {
			return err
		}
		crew[name] = m
	}
	heard, killed, err := follow(ctx, words, crew, first)
	if err != nil {
		return err
	}
	show(s, heard, first, killed)
	return nil
}

// follow hears of the ticks until they are over, and kills who runs the third.
func follow(
	ctx context.Context, words <-chan stage.Word, crew map[string]*stage.Member, first time.Time,
) (map[int64]*log, string, error) {
	heard, killed := make(map[int64]*log), ""
	over := time.After(time.Until(first.Add((ticks-1)*every + every/2)))
	for {
		select {
		case w := <-words:
			if w.Text == nil {
				if w.Node != killed {
					return nil, "", fmt.Errorf("%s has ended", w.Node)
				}
				continue
			}
			var said word
			if err := json.Unmarshal(w.Text, &said); err != nil {
				return nil, "", err
			}
			l := heard[said.Tick]
			if l == nil {
				l = new(log)
				heard[said.Tick] = l
			}
			l.add(w.Node, said.Outcome)
			if said.Outcome == runs && said.Tick == first.Add(third*every).UnixMilli() {
				killed = w.Node
				crew[killed].Kill()
			}
		case <-over:
			return heard, killed, nil
		case <-ctx.Done():
			return nil, "", context.Cause(ctx)
		}
	}
}

func (l *log) add(node, outcome string) {
	switch outcome {
	case runs:
		l.began = append(l.began, node)
	case "ran":
		l.ran = append(l.ran, node)
	case "skipped":
		l.skipped = append(l.skipped, node)
	case ready:
	default:
		l.other = append(l.other, node+": "+outcome)
	}
}

// show prints the ticks, and what is claimed of them.
func show(s *stage.Stage, heard map[int64]*log, first time.Time, killed string) {
	s.Title("Tick by tick")
	once, runners := 0, map[string]bool{}
	var after *log
	for i := range ticks {
		at := first.Add(time.Duration(i) * every)
		l := heard[at.UnixMilli()]
		if l == nil {
			l = new(log)
		}
		if len(l.began) == 1 {
			once++
		}
		for _, n := range l.began {
			runners[n] = true
		}
		line := strings.Join(l.ran, " and ") + " ran it"
		switch {
		case len(l.began) == 0:
			line = "nobody ran it"
		case i == third:
			line = strings.Join(l.began, " and ") + " began, and was killed in the middle"
		case i == third+1:
			after = l
		}
		slices.Sort(l.skipped)
		s.Print("  %s  %-48s taken: %s", at.Format("15:04:05.0"), line,
			strings.Join(append(l.skipped, l.other...), ", "))
	}
	s.Claim("each tick was begun once", fmt.Sprintf("%d of %d", once, ticks), once == ticks)
	s.Claim("a node was killed in the middle of a run", killed, killed != "")
	next := ""
	if after != nil {
		next = strings.Join(after.ran, " and ")
	}
	s.Claim("the next tick was run elsewhere", next, next != "" && next != killed)
}
