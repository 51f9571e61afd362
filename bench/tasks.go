package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"
)

// taskRows are tasks of asynq, one at a time for each user, by the configuration of the README.
var taskRows = []section{
	{"one", tasksOfOne},
	{"interval", tasksAtInterval},
	{"long", longTasks},
	{"users", tasksOfMany},
	{"hot", hotUser},
	{"idle", idleServers},
}

// taskCase is a burst of tasks for a few users on two servers.
type taskCase struct {
	fleetOf

	tasks, users int
	work         time.Duration
}

// taskServers and taskWorkers are the fleet of every case.
const taskServers, taskWorkers = 2, 20

func (c taskCase) ideal() time.Duration { return c.work * time.Duration(c.tasks/c.users) }

// toIdeal prints a time ÷ ideal: at least that of its bound for a burst that was not over by then.
func (c taskCase) toIdeal(ratio float64) string {
	if math.IsInf(ratio, 1) {
		return fmt.Sprintf("> %.1f", float64(taskTime)/float64(c.ideal()))
	}
	return fmt.Sprintf("%.2f", ratio)
}

// burst is how a case went, a figure a round.
type burst struct {
	ratio, requests, own, unordered, deliveries sample
	overlaps, twice, done                       int
}

// asynqInterval is asynq's own TaskCheckInterval.
const asynqInterval = time.Second

func tasksOfOne(ctx context.Context, o options, w io.Writer) ([]target, error) {
	c := taskCase{fleetOf{inLine, taskServers, taskWorkers, 0}, 300, 1, 20 * time.Millisecond}
	b, row, err := c.measure(ctx, o, w, "")
	if err != nil {
		return nil, err
	}
	const timeMost, requestsMost, orderMost = 1.15, 15, 1
	return []target{
		b.time(row, timeMost),
		atMost(row+"requests of ours a task", b.requests.median(), requestsMost),
		atMost(row+"run out of the order of their places, %", b.unordered.median(),
			orderMost),
		b.whole(row),
	}, nil
}

func tasksAtInterval(ctx context.Context, o options, w io.Writer) ([]target, error) {
	c := taskCase{
		fleetOf{inLine, taskServers, taskWorkers, asynqInterval}, 300, 1, 20 * time.Millisecond,
	}
	b, row, err := c.measure(ctx, o, w, ", asynq's own TaskCheckInterval")
	if err != nil {
		return nil, err
	}
	return []target{b.time(row, math.Inf(1)), b.whole(row)}, nil
}

func longTasks(ctx context.Context, o options, w io.Writer) ([]target, error) {
	c := taskCase{fleetOf{inLine, taskServers, taskWorkers, 0}, 20, 1, time.Second}
	b, row, err := c.measure(ctx, o, w, "")
	if err != nil {
		return nil, err
	}
	const most = 1.1
	return []target{b.time(row, most), b.whole(row)}, nil
}

func tasksOfMany(ctx context.Context, o options, w io.Writer) ([]target, error) {
	c := taskCase{fleetOf{inLine, taskServers, taskWorkers, 0}, 1000, 20, 20 * time.Millisecond}
	b, row, err := c.measure(ctx, o, w, "")
	if err != nil {
		return nil, err
	}
	const most = 1.3
	return []target{b.time(row, most), b.whole(row)}, nil
}

// time judges the time to the last task's end. A case that was not over in its time has none.
func (b *burst) time(row string, most float64) target {
	t := atMost(row+"time ÷ ideal", b.ratio.median(), most)
	if math.IsInf(most, 1) {
		t.must, t.ok = "reported", true
	}
	if math.IsInf(b.ratio.median(), 1) {
		t.measured = fmt.Sprintf("%d done in %v", b.done, taskTime)
	}
	return t
}

func (b *burst) whole(row string) target {
	return target{
		row + "overlaps, run twice", fmt.Sprintf("%d, %d", b.overlaps, b.twice), "0, 0",
		b.overlaps+b.twice == 0 && len(b.ratio.values) > 0,
	}
}

// measure runs a case, in turn with the floor. It goes on after a round that was not over in its
// time no more.
func (c taskCase) measure(
	ctx context.Context, o options, w io.Writer, more string,
) (*burst, string, error) {
	rounds := min(o.rounds, 3)
	if c.ideal() > taskTime/6 {
		rounds = 1
	}
	if o.short {
		c.tasks, rounds = max(c.tasks/20, 2*c.users), 1
		c.work = min(c.work, 50*time.Millisecond)
	}
	floorOf := c
	floorOf.lock, floorOf.interval = inSlot, 10*time.Millisecond
	ours, least := new(burst), new(burst)
	for range rounds {
		for _, one := range []struct {
			taskCase
			to *burst
		}{{c, ours}, {floorOf, least}} {
			if math.IsInf(one.to.ratio.worst(), 1) {
				continue
			}
			if err := one.to.round(ctx, one.taskCase, o.short); err != nil {
				return nil, "", fmt.Errorf("%s: %w", one.lock, err)
			}
		}
	}
	row := fmt.Sprintf("%d tasks of %v, users: %d%s, ", c.tasks, c.work, c.users, more)
	t := table{{
		"", "time ÷ ideal", "worst round", "done", "requests of ours a task",
		"of them to asynq's Redis", "deliveries a task", "out of the order of their places",
		"overlaps", "run twice",
	}}
	for i, b := range []*burst{ours, least} {
		t.add([]string{c.lock, floorOf.lock}[i], c.toIdeal(b.ratio.median()),
			c.toIdeal(b.ratio.worst()), fmt.Sprint(b.done),
			fmt.Sprintf("%.1f", b.requests.median()), fmt.Sprintf("%.1f", b.own.median()),
			fmt.Sprintf("%.1f", b.deliveries.median()),
			fmt.Sprintf("%.2f %%", b.unordered.median()), fmt.Sprint(b.overlaps),
			fmt.Sprint(b.twice))
	}
	out := &printer{w: w}
	out.printf("\n## %d tasks of %v, users: %d, on %d servers × %d%s (ideal %v, medians of %d "+
		"rounds)\n\n%s", c.tasks, c.work, c.users, c.servers, c.concurrency, more,
		c.ideal(), rounds, t)
	return ours, row, out.err
}

// round runs a case once, on servers of its own.
func (b *burst) round(ctx context.Context, c taskCase, short bool) error {
	f, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer f.close()
	bound := taskTime
	if short {
		bound /= 6
	}
	warmed, err := f.warm(ctx)
	if err != nil {
		return err
	}
	if err := resetStats(f.locks); err != nil {
		return err
	}
	begun := monotonic()
	enqueued, err := f.enqueue(c.tasks, c.work, func(i int) string {
		return fmt.Sprintf("user-%d", i%c.users)
	})
	if err != nil {
		return err
	}
	finished, err := f.await(ctx, bound, func(p progress) bool {
		return p.Done >= c.tasks+len(warmed.Tasks)
	})
	if err != nil {
		return err
	}
	requests, err := f.requested()
	if err != nil {
		return err
	}
	all, err := f.end()
	if err != nil {
		return err
	}
	all.Own -= warmed.Own
	b.judge(c, all, enqueued, begun, requests, finished)
	return nil
}

// warm has some tasks of other users run, so that all is connected and every script is known.
func (f *fleet) warm(ctx context.Context) (served, error) {
	const tasks = 40
	_, err := f.enqueue(tasks, time.Millisecond, func(i int) string {
		return fmt.Sprintf("warm-%d", i)
	})
	if err != nil {
		return served{}, err
	}
	done, err := f.await(ctx, taskTime, func(p progress) bool { return p.Done >= tasks })
	if err == nil && !done {
		err = fmt.Errorf("%d tasks of as many users were not done in %v", tasks, taskTime)
	}
	if err != nil {
		return served{}, err
	}
	return f.end()
}

func (b *burst) judge(
	c taskCase, all served, enqueued map[string]int64, begun, requests int64, finished bool,
) {
	var tasks []delivered
	ended, deliveries, done := begun, 0, 0
	for _, d := range all.Tasks {
		if _, ok := enqueued[d.ID]; !ok {
			continue // to warm up
		}
		tasks = append(tasks, d)
		deliveries += d.Deliveries
		ended = max(ended, d.Ended)
		if d.Ended != 0 {
			done++
		}
		if d.Runs > 1 {
			b.twice++
		}
	}
	took := math.Inf(1)
	if finished {
		took = float64(ended-begun) / float64(c.ideal())
	}
	each := float64(max(done, 1))
	b.ratio.add(took)
	b.requests.add(float64(requests+all.Own) / each)
	b.own.add(float64(all.Own) / each)
	b.deliveries.add(float64(deliveries) / each)
	b.unordered.add(100 * outOfOrder(tasks))
	b.overlaps += overlapping(tasks)
	b.done = done
}
