package main

import (
	"context"
	"sync"
	"time"
)

// cues tell the story when to go on: each comes once, with the node
// that it is about. They may be given concurrently.
type cues struct {
	user, task string // the long report

	held, gone, taken chan string

	mu      sync.Mutex
	scene   scene
	rescued time.Time // when the scene became that
}

// scene is how far the long report has come.
type scene uint8

const (
	waiting   scene = iota // nobody has it yet
	rendering              // a node has
	orphaned               // that node has lost the lock
	rescued                // another task of the user has the lock
)

// cue is what an acquisition means for the story.
type cue uint8

const (
	cueNone cue = iota
	cueLong
	cueTakeOver
)

func newCues(long Report) *cues {
	c := func() chan string { return make(chan string, 1) }
	return &cues{user: long.User, task: long.ID, held: c(), gone: c(), taken: c()}
}

// acquired is given when a task has its lock.
func (c *cues) acquired(node, user, task string) cue {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.scene == waiting && task == c.task:
		c.scene = rendering
		c.held <- node
		return cueLong
	case c.scene == orphaned && user == c.user:
		c.scene, c.rescued = rescued, time.Now()
		c.taken <- node
		return cueTakeOver
	default:
		return cueNone
	}
}

// lost is given when a task has lost its lock.
func (c *cues) lost(node, user string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.scene == rendering && user == c.user {
		c.scene = orphaned
		c.gone <- node
	}
}

// rescuedAt is when the other node took over; the zero time if none has.
func (c *cues) rescuedAt() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rescued
}

// await waits for a cue.
func await[T any](ctx context.Context, c <-chan T) (cue T, err error) {
	select {
	case cue = <-c:
		return cue, nil
	case <-ctx.Done():
		return cue, context.Cause(ctx)
	}
}

// pause lets time pass.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
