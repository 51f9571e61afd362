package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// partMember is the part of a process whose members want one key, round after round. A member is
// one goroutine with clients (and a keeper) of its own, as if it were a process of its own.
const partMember = "member"

// joining is what the members of one process are told before a round.
type joining struct {
	Who        string
	Addr       string
	Cluster    bool
	Name       string
	First      int // number of the process's first member, of all
	Members    int // of this process
	Of         int // members in all
	TTL        time.Duration
	Warm, Span time.Duration // what is not counted, and what is
	Note       bool          // each grant
	Err        string        `json:",omitempty"`
}

// joined is how the members of one process did in a round.
type joined struct {
	Counts  []int         // hand-offs to each member
	CPU     time.Duration // of the process, user and system
	Failed  int
	Err     string
	Grants  []grant // by the machine's monotonic clock, if they were to be noted
	Members []int   // who got each of them
}

// monotonic is CLOCK_MONOTONIC in ns, which all processes of a machine share.
func monotonic() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // it exists wherever Linux does
	return t.Nano()
}

// playMembers joins and runs a round for each line that it reads.
func playMembers(ctx context.Context, in *bufio.Reader, out *json.Encoder) error {
	if err := out.Encode(ready{}); err != nil {
		return err
	}
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var j joining
		if err := json.Unmarshal(line, &j); err != nil {
			return err
		}
		if err := playRound(ctx, j, in, out); err != nil {
			return err
		}
	}
}

// playRound connects the members, says so, waits for a line, and says how they did.
func playRound(ctx context.Context, j joining, in *bufio.Reader, out *json.Encoder) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	members, closeAll, err := join(ctx, j)
	defer func() { _ = within(endWithin, func() error { closeAll(); return nil }) }()
	if err != nil {
		j.Err = err.Error()
	}
	if err := out.Encode(j); err != nil {
		return err
	}
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	return out.Encode(takeTurns(ctx, j, members))
}

// join connects the members of one process.
func join(ctx context.Context, j joining) (members []mutex, closeAll func(), err error) {
	var closing []func()
	closeAll = func() {
		var wg sync.WaitGroup
		for _, f := range closing {
			wg.Go(f)
		}
		wg.Wait()
	}
	for i := range j.Members {
		if j.Who == ring {
			m, err := newRingMember(ctx, j.Addr, j.Name, j.First+i, j.Of, j.TTL)
			if err != nil {
				return members, closeAll, err
			}
			members, closing = append(members, m), append(closing, m.close)
			continue
		}
		d := deployment{addr: j.Addr, cluster: j.Cluster, client: memberName(j.First + i)}
		c, err := newContender(j.Who, d, j.TTL)
		if err != nil {
			return members, closeAll, err
		}
		members, closing = append(members, c.mutex(j.Name)), append(closing, c.close)
	}
	return members, closeAll, nil
}

// takeTurns lets each member take the key over and over. What happens while it is warm does not
// count, nor what is after the span.
func takeTurns(ctx context.Context, j joining, members []mutex) joined {
	waiting, stop := context.WithTimeout(ctx, j.Warm+j.Span)
	defer stop()
	freeing, abandon := context.WithTimeout(ctx, j.Warm+j.Span+endWithin)
	defer abandon()
	var counting atomic.Bool
	each := make([]joined, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { each[i] = takeTurnsAlone(waiting, freeing, m, &counting, j, i) })
	}
	if first, ok := firstOfRing(j, members); ok {
		if err := first.begin(freeing); err != nil {
			return joined{Failed: 1, Err: err.Error()}
		}
	}
	time.Sleep(j.Warm)
	before, errBefore := cpuTime()
	counting.Store(true)
	time.Sleep(j.Span)
	counting.Store(false)
	after, errAfter := cpuTime()
	sum := joined{CPU: after - before}
	err := within(2*endWithin, func() error { wg.Wait(); return nil })
	if err = errors.Join(err, errBefore, errAfter); err != nil {
		sum.Failed, sum.Err = 1, err.Error()
		return sum
	}
	for _, one := range each {
		sum.add(one)
	}
	return sum
}

// firstOfRing is the member that a ring begins with, if it is in this process.
func firstOfRing(j joining, members []mutex) (*ringMember, bool) {
	if j.Who != ring || j.First != 0 || len(members) == 0 {
		return nil, false
	}
	m, ok := members[0].(*ringMember)
	return m, ok
}

// takeTurnsAlone is one member's round.
func takeTurnsAlone(
	waiting, freeing context.Context, m mutex, counting *atomic.Bool, j joining, number int,
) joined {
	r := joined{Counts: []int{0}}
	for waiting.Err() == nil {
		asked := monotonic()
		_, err := m.lock(waiting)
		had := monotonic()
		if err != nil {
			if waiting.Err() == nil {
				r.fail(fmt.Errorf("lock: %w", err))
				time.Sleep(10 * time.Millisecond) // not all libraries fail slowly
			}
			continue
		}
		if counting.Load() {
			r.Counts[0]++
			if j.Note {
				r.Grants = append(r.Grants, grant{asked, had})
				r.Members = append(r.Members, j.First+number)
			}
		}
		if err := m.unlock(freeing); err != nil {
			r.fail(fmt.Errorf("unlock: %w", err))
		}
	}
	return r
}

func (r *joined) fail(err error) {
	r.Failed++
	r.Err = err.Error()
}

// add takes in the result of another member or process.
func (r *joined) add(o joined) {
	r.Counts = append(r.Counts, o.Counts...)
	r.CPU += o.CPU
	r.Failed += o.Failed
	r.Grants = append(r.Grants, o.Grants...)
	r.Members = append(r.Members, o.Members...)
	if o.Err != "" {
		r.Err = o.Err
	}
}

func (r *joined) total() (sum int) {
	for _, n := range r.Counts {
		sum += n
	}
	return sum
}
