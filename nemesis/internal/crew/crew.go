// Package crew runs worker processes and takes down what they tell.
package crew

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"syscall"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
)

// Crew are worker processes. Its methods may be called concurrently.
type Crew struct {
	specs []worker.Spec

	mu      sync.Mutex // guards what follows
	lives   []int      // how often each was started
	running []*process
	past    []*process
}

// Start starts a crew, a process for each spec. The caller must End it.
func Start(specs []worker.Spec) (*Crew, error) {
	c := &Crew{specs: specs, lives: make([]int, len(specs)), running: make([]*process, len(specs))}
	for i := range specs {
		if err := c.Start(i); err != nil {
			return nil, errors.Join(err, c.End(0))
		}
	}
	return c, nil
}

// Start starts a worker, as a process of another name and seed than
// before. One that runs is left alone.
func (c *Crew) Start(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[i] != nil {
		return nil
	}
	spec := c.specs[i]
	spec.Seed += uint64(c.lives[i]) << 32
	c.lives[i]++
	spec.Name = fmt.Sprintf("worker %d.%d", i+1, c.lives[i])
	text, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	p, err := spawn(spec.Name, string(text))
	if err != nil {
		return err
	}
	c.running[i] = p
	return nil
}

// Kill ends a worker by SIGKILL. One that does not run is left alone.
func (c *Crew) Kill(i int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.running[i]
	if p == nil {
		return nil
	}
	c.running[i] = nil
	c.past = append(c.past, p)
	p.kill()
	return nil
}

// Stop freezes a worker by SIGSTOP.
func (c *Crew) Stop(i int) error { return c.signal(i, syscall.SIGSTOP) }

// Cont lets a worker go on.
func (c *Crew) Cont(i int) error { return c.signal(i, syscall.SIGCONT) }

func (c *Crew) signal(i int, sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.running[i]; p != nil {
		return p.signal(sig)
	}
	return nil
}

// End tells all workers to end, and kills those that have not within
// patience. The error tells of these, and of those that failed.
func (c *Crew) End(patience time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for _, p := range c.running {
		if p != nil {
			err = errors.Join(err, p.signal(syscall.SIGCONT), p.leave())
		}
	}
	over := false
	for i, p := range c.running {
		if p == nil {
			continue
		}
		if !over {
			select {
			case <-p.done:
			case <-timeout.C:
				over = true
			}
		}
		select {
		case <-p.done:
			if p.failure != nil {
				err = errors.Join(err,
					fmt.Errorf("crew: %s failed: %w: %s", p.name, p.failure, p.complaints.String()))
			}
		default:
			p.kill()
			err = errors.Join(err, fmt.Errorf("crew: %s has not ended within %v", p.name, patience))
		}
		c.running[i] = nil
		c.past = append(c.past, p)
	}
	return err
}

// HadSince are the names of which a lease of a running worker began after an instant.
func (c *Crew) HadSince(at int64) map[string]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]bool)
	for _, p := range c.running {
		if p != nil {
			p.mu.Lock()
			maps.Copy(all, p.history.HadSince(at))
			p.mu.Unlock()
		}
	}
	return all
}

// Told returns what all processes have told, once the crew has ended.
func (c *Crew) Told() []*history.Process {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*history.Process
	for _, p := range c.past {
		all = append(all, p.told())
	}
	return all
}
