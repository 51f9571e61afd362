package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// The parts that a child may play with a library, named by childSpec.Part.
const (
	partContend = "contend" // many goroutines want one key
	partWait    = "wait"    // waits for each key that it reads, and says when it has it
	partHold    = "hold"    // holds a key until it is killed
)

// endWithin bounds what should end by itself at once, and whatever a library may hang in.
const endWithin = 5 * time.Second

// capped is how long anybody waits for a lock, or for word of its
// loss, above the time in which it must come.
const capped = 20 * time.Second

// ready is what a child says when it has begun.
type ready struct{}

// got is when a waiter had the lock, or why it had not.
type got struct {
	At  int64 // ns since 1970: processes of one machine share its clock
	Err string
}

// playPart is a child of one library.
func playPart(ctx context.Context, s childSpec, stdin io.Reader, stdout io.Writer) error {
	in, out := bufio.NewReader(stdin), json.NewEncoder(stdout)
	switch s.Part {
	case partMember:
		return playMembers(ctx, in, out)
	case partCycles:
		return playCycles(ctx, s, in, out)
	case partTasks:
		return serveTasks(ctx, in, out)
	}
	c, err := newContender(s.Who, deployment{addr: s.Addr, cluster: s.Cluster}, s.TTL)
	if err != nil {
		return err
	}
	if s.Part == partWait {
		defer c.close()
		return waitFor(ctx, c, max(s.Hold, capped), in, out)
	}
	if s.Part == partHold {
		if _, _, err := locked(ctx, c.mutex(s.Name), s.TTL); err != nil { // it is never freed
			return err
		}
	}
	if err := out.Encode(ready{}); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil || s.Part == partHold {
		return err
	}
	if err := out.Encode(contend(ctx, c, s.Name, s.Goroutines, s.Hold)); err != nil {
		return err
	}
	// a library that hangs ends with the process
	_ = within(endWithin, func() error { c.close(); return nil })
	return nil
}

// waitFor takes each lock that is named on a line.
func waitFor(
	ctx context.Context, c *contender, within time.Duration, in *bufio.Reader, out *json.Encoder,
) error {
	if err := out.Encode(ready{}); err != nil {
		return err
	}
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := out.Encode(takeOnce(ctx, c.mutex(strings.TrimSpace(line)), within)); err != nil {
			return err
		}
	}
}

// takeOnce takes a lock and frees it.
func takeOnce(ctx context.Context, m mutex, within time.Duration) got {
	locking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if _, err := m.lock(locking); err != nil {
		return got{Err: err.Error()}
	}
	at := time.Now().UnixNano()
	freeing, cancelFreeing := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
	defer cancelFreeing()
	if err := m.unlock(freeing); err != nil {
		return got{at, fmt.Sprintf("unlock: %v", err)}
	}
	return got{At: at}
}
