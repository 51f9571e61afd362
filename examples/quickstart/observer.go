package main

import (
	"context"
	"strings"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/renewer"
)

// observer prints what happens to the locks of one node. An observer for
// metrics looks the same.
type observer struct {
	renewer.NopObserver

	node string
	demo *demo.Demo
}

// user is whose lock it is: the adapter puts the type of the task before the
// key.
func user(lock string) string { return strings.TrimPrefix(lock, taskType+":") }

// AcquireEnd hears that a task has its lock. Of one that does not get it for
// now, and goes back to the queue, it hears as well, by e.Err.
func (o *observer) AcquireEnd(ctx context.Context, e renewer.AcquireEnd) context.Context {
	// The context of a lock is that of its task. The line in front of a lock
	// takes it, too, for a moment and without a task, to find out that it is
	// free.
	if task, ok := asynq.GetTaskID(ctx); ok && e.Err == nil {
		o.demo.Event(o.node, "%s: %s has the lock, after %s", user(e.Name), task, demo.Span(e.Wait))
	}
	return ctx
}

// Renewed hears of every heartbeat: one may keep many locks alive.
func (o *observer) Renewed(_ context.Context, e renewer.Renewed) {
	if e.Failed > 0 {
		o.demo.Event(o.node, "heartbeat: no answer; tries again while there is time")
	} else {
		o.demo.Event(o.node, "heartbeat: %d lock(s) good for %v more", e.OK, demo.TTL)
	}
}

// Lost hears that a lock could not be kept. The task has just been told, by its
// context.
func (o *observer) Lost(_ context.Context, e renewer.Lost) {
	o.demo.Event(o.node, "%s: LOST the lock after %s (%s); told %s before another "+
		"process can have it", user(e.Name), demo.Span(e.Held), e.Err.Reason,
		demo.Span(e.Err.Left))
}
