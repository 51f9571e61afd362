package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/renewer"
)

// reporter is the Observer of one node's locks: it tells the timeline
// what it hears. One for metrics looks the same.
type reporter struct {
	renewer.NopObserver

	node   string
	line   *timeline
	cues   *cues
	totals *totals

	mu     sync.Mutex
	waited map[string]wait // by task: how its last wait for a lock went
	told   map[string]bool // users of whom it has been said that somebody waits in vain
	mute   bool            // it has been said that nobody answers
}

// wait is how long a task has stood in line, and behind whom.
type wait struct {
	lasted time.Duration
	holder string
}

// totals are counted over all nodes.
type totals struct {
	mu        sync.Mutex
	renewed   int // leases renewed
	contended int // tasks put back because somebody else had the lock
	unasked   int // tasks put back because the lock server did not answer
}

func newReporter(node string, t *timeline, c *cues, sum *totals) *reporter {
	return &reporter{
		node: node, line: t, cues: c, totals: sum, waited: make(map[string]wait),
		told: make(map[string]bool),
	}
}

// user is whose lock it is: adapters put the task's type before the key.
func user(lock string) string { return strings.TrimPrefix(lock, renderReport+":") }

// AcquireEnd hears that a task has its lock, or that it doesn't get it for now.
func (r *reporter) AcquireEnd(ctx context.Context, e renewer.AcquireEnd) context.Context {
	task, _ := asynq.GetTaskID(ctx) // the lock's context is the task's
	switch {
	case e.Err == nil:
		r.got(task, e)
	case errors.Is(e.Err, renewer.ErrHeld):
		r.totals.add(func(t *totals) { t.contended++ })
		if r.first(user(e.Name)) {
			r.line.say(dim, r.node, user(e.Name),
				"%s waits for %s, and goes back to the queue after %s in line",
				task, r.holder(e), ms(e.Wait))
		}
	case errors.Is(e.Err, renewer.ErrUnavailable):
		r.totals.add(func(t *totals) { t.unasked++ })
		if r.silence() {
			r.line.say(yellow, r.node, "",
				"gets no answer about locks, so it runs nothing; its tasks go back to the queue")
		}
	}
	return ctx
}

func (r *reporter) got(task string, e renewer.AcquireEnd) {
	r.mu.Lock()
	if e.Contended {
		r.waited[task] = wait{e.Wait, r.holder(e)}
	}
	back := r.mute
	r.mute = false
	r.mu.Unlock()
	if back {
		r.line.say(green, r.node, "", "gets locks again")
	}
	switch r.cues.acquired(r.node, user(e.Name), task) {
	case cueLong:
		r.line.say(bold, r.node, user(e.Name),
			"%s is a long one: holds the lock, and keeps it alive", task)
	case cueTakeOver:
		text := "TAKES OVER with " + task
		if e.Contended {
			text += ", which waited " + ms(e.Wait) + " for " + r.holder(e)
		}
		r.line.say(bold+green, r.node, user(e.Name), "%s", text)
	}
}

// first tells whether it is the first time that somebody waits in
// vain for a user's lock; to tell each would be too much.
func (r *reporter) first(user string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := !r.told[user]
	r.told[user] = true
	return first
}

// silence tells whether it is news that nobody answers.
func (r *reporter) silence() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	news := !r.mute
	r.mute = true
	return news
}

// holder is the node that had the lock meanwhile: this one if the
// store was not asked, since all stood in line here.
func (r *reporter) holder(e renewer.AcquireEnd) string {
	if e.Holder.Node == "" {
		return r.node
	}
	return e.Holder.Node
}

// Renewed hears of every heartbeat: one may keep many locks alive.
func (r *reporter) Renewed(_ context.Context, e renewer.Renewed) {
	r.totals.add(func(t *totals) { t.renewed += e.OK })
	switch {
	case e.Failed > 0:
		r.line.say(yellow, r.node, "",
			"heartbeat for %s: no answer; tries again while there is time", locks(e.Failed))
	case e.OK > 0:
		r.line.say(dim, r.node, "", "heartbeat: %s good for %s more", locks(e.OK), ms(lockTTL))
	}
}

// Lost hears that a lock could not be kept; the handler has just been told, by its context.
func (r *reporter) Lost(_ context.Context, e renewer.Lost) {
	r.line.say(bold+red, r.node, user(e.Name),
		"LOST the lock after %s (%s); told %s before anybody else can have it",
		ms(e.Held), e.Err.Reason, ms(e.Err.Left))
	r.cues.lost(r.node, user(e.Name))
}

// Released hears that a task has ended, and with it its lock.
func (r *reporter) Released(ctx context.Context, e renewer.Released) {
	task, _ := asynq.GetTaskID(ctx)
	r.mu.Lock()
	w, waited := r.waited[task]
	delete(r.waited, task)
	r.mu.Unlock()
	if e.Lost != nil {
		return // told already
	}
	text := task + " done in " + ms(e.Held)
	if e.Renewals > 0 {
		text += ", lock renewed " + times(e.Renewals)
	}
	if waited {
		text += "; had waited " + ms(w.lasted) + " for " + w.holder
	}
	if e.Err != nil {
		text += "; the lock can't be given back, so it will lapse"
	}
	r.line.say(plain, r.node, user(e.Name), "%s", text)
}

// testify writes down what was counted.
func (t *totals) testify(f *figures) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f.renewed, f.contended, f.unasked = t.renewed, t.contended, t.unasked
}

func (t *totals) add(f func(*totals)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(t)
}
