package cronmw

import (
	"context"
	"fmt"

	"github.com/robfig/cron/v3"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
)

var _ cron.Job = (*Job)(nil)

// AddFunc is c.AddFunc for a function that runs once a tick, on one node of
// many: see [Node.Job] for what is refused. The spec is read by c's parser, in
// c's location, which must be the same on all nodes. "@every 30s" is [Every],
// and not 30 s from each node's start.
//
// For a schedule of your own: c.Schedule(schedule, job), with a job of
// [Node.Job].
func (n *Node) AddFunc(
	c *cron.Cron, spec, name string, fn func(context.Context) error, opts ...Option,
) (cron.EntryID, error) {
	// c's parser can only be reached by adding something.
	probe, err := c.AddFunc(spec, func() {})
	if err != nil {
		return 0, fmt.Errorf("%w: job %q: %w", renewer.ErrConfig, name, err)
	}
	schedule := ticks.Crontab(c.Entry(probe).Schedule, c.Location())
	c.Remove(probe)
	j, err := n.Job(name, schedule, fn, opts...)
	if err != nil {
		return 0, err
	}
	return c.Schedule(schedule, j), nil
}
