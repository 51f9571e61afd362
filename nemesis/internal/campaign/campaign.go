package campaign

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/nemesis/internal/fault"
	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
)

// Result is how a campaign went.
type Result struct {
	history.Report
	Options Options
	Faults  int
	Took    time.Duration
}

// busy is what a busy machine may add to a time in which something must have happened.
const busy = 20 * time.Second

// Run runs a campaign. The error tells of what kept it from running;
// what it found is in the result.
func Run(ctx context.Context, o Options) (result Result, err error) {
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	begun := time.Now()
	s := new(stage)
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.open(o); err != nil {
		return Result{}, err
	}
	field := &fault.Field{
		Deployment: s.deployment, Links: s.links, Crew: s.crew,
		Keys: s.lockKeys(), TTL: o.TTL,
	}
	kinds, err := fault.Named(field, o.Faults)
	if err != nil {
		return Result{}, err
	}
	n := &nemesis{field: field, seed: o.Seed, say: o.Say}
	n.divide(kinds)
	limited, stop := context.WithTimeout(ctx, o.Duration)
	defer stop()
	var watching sync.WaitGroup
	defer watching.Wait()
	whole, over := context.WithCancel(ctx)
	defer over()
	watching.Go(func() { n.watch(whole) })
	wait(limited, o.TTL/2) // a little history without faults
	if err := n.run(limited); err != nil {
		return Result{}, err
	}
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}

	var found []history.Violation
	broken := func(rule string, err error) {
		if err != nil {
			found = append(found, history.Violation{Rule: rule, Text: err.Error()})
		}
	}
	broken("progress", s.awaitProgress(ctx, 3*o.TTL+busy))
	broken("end", s.crew.End(6*o.TTL+busy))
	broken("slot leaked", s.awaitSlots(ctx, o.TTL, o.TTL+busy))
	broken("left behind", s.awaitNothingLeft(ctx, o.TTL+busy))
	over()
	watching.Wait()
	cfg := worker.Config(o.TTL)
	report := history.Judge(history.Run{
		Processes: s.crew.Told(), Limits: s.limits, Excused: n.excused, MostWait: o.MostWait,
		Margin: cfg.Margin, Request: cfg.RequestTimeout + deploy.WriteTimeout(o.TTL),
	})
	report.Violations = append(report.Violations, found...)
	return Result{
		Report: report, Options: o, Faults: n.injected, Took: time.Since(begun),
	}, nil
}

// awaitProgress returns nil once every lock has been had anew:
// faults are over, so nothing may hang.
func (s *stage) awaitProgress(ctx context.Context, patience time.Duration) error {
	begun := history.Now()
	limited, stop := context.WithTimeout(ctx, patience)
	defer stop()
	for {
		stuck := ""
		had := s.crew.HadSince(begun)
		for _, key := range s.keys {
			if !had[key] {
				stuck = key
			}
		}
		if stuck == "" {
			return nil
		}
		if limited.Err() != nil {
			return fmt.Errorf("%q was not had within %v of the last fault; %s", stuck,
				patience, s.standing(stuck))
		}
		wait(limited, 10*time.Millisecond)
	}
}
