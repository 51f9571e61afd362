package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// every is the time between two ticks. The TTL of the locks is below
// it, so that those of a dead node have lapsed by the next tick.
const (
	every = 1500 * time.Millisecond
	ttl   = 1200 * time.Millisecond
)

// role is what the story tells a node.
type role struct {
	Ahead time.Duration // of its clock
	Hang  int64         // the tick whose run does not come to its end
}

// word is what a node tells the story of a tick.
type word struct {
	Tick    int64
	Outcome string
}

const (
	ready = "ready"
	runs  = "runs"
)

// act is a node: a scheduler, and a job in it that is run once a tick.
func act(
	ctx context.Context, k *renewer.Keeper, _ string, raw json.RawMessage, tell func(any),
) error {
	var r role
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	node, err := cronmw.New(ctx, k, cronmw.Config{OnTick: func(_ context.Context, t cronmw.Tick) {
		tell(word{r.tick(), t.Outcome.String()})
	}})
	if err != nil {
		return err
	}
	scheduler := cron.New()
	_, err = node.Schedule(scheduler, skewed{cronmw.Every(every), r.Ahead}, "report",
		func(ctx context.Context) error {
			tell(word{r.tick(), runs})
			if r.tick() == r.Hang {
				<-ctx.Done() // or until the process is killed
				return context.Cause(ctx)
			}
			<-time.After(time.Millisecond)
			return nil
		})
	if err != nil {
		return err
	}
	scheduler.Start()
	tell(word{Outcome: ready})
	<-ctx.Done()
	<-scheduler.Stop().Done()
	return nil
}

// tick numbers the ticks, by the node's clock.
func (r role) tick() int64 { return time.Now().Add(r.Ahead).Truncate(every).UnixMilli() }

// skewed is a schedule by a clock that is ahead.
type skewed struct {
	cronmw.Schedule

	ahead time.Duration
}

func (s skewed) Next(t time.Time) time.Time { return s.Schedule.Next(t.Add(s.ahead)).Add(-s.ahead) }
