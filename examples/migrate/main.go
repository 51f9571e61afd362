// Migrate moves one program from locks in memory to one Redis, and from there to five servers of
// which any two may fail. Each move changes one line.
//
//	go run ./examples/migrate                                # five servers run inside the program
//	go run ./examples/migrate -redis a:6379,b:6379,c:6379    # on your own, an odd number
//
// Two box offices sell the same tickets, under a lock that the code which sells never sees. In each
// of the three worlds the program prints what it sold, and what happens when servers are gone in
// the middle. The exit status is 1 if anything that it claims did not hold.
//
// Read app.go first: it is what you would write, with the lines that change. main.go plays the
// crowd, the accidents and the database.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	crowd    = 40                     // customers who want a ticket at once
	patience = 5 * time.Second        // of each
	handling = 5 * time.Millisecond   // of a ticket
	slow     = 300 * time.Millisecond // of a ticket that is being sold when servers go
)

func main() { demo.Main(demo.Setting{Program: "migrate", Servers: 5}, tell(worlds)) }

// story is one run.
type story struct {
	*demo.Demo

	world   world
	offices [2]*office
	shows   []*show
}

// tell is the story of these worlds.
func tell(worlds []world) demo.Story {
	return func(ctx context.Context, d *demo.Demo) error {
		if len(d.Servers) < 3 || len(d.Servers)%2 == 0 {
			return fmt.Errorf("a quorum needs an odd number of servers, 3 or more; these are %d",
				len(d.Servers))
		}
		d.Print("Two box offices sell tickets, one at a time, to %d customers at once. Redis: %d "+
			"servers, %s.", crowd, len(d.Servers), d.Where())
		nodes := make([]renewer.Store, len(d.Servers))
		for i := range nodes {
			node, err := d.Store(i, "")
			if err != nil {
				return err
			}
			nodes[i] = node
		}
		s := &story{Demo: d}
		for i, w := range worlds {
			d.Print("\n%d. %-12s %s", i+1, w.name, w.line)
			s.world = w
			if err := s.visit(ctx, nodes, i); err != nil {
				return err
			}
		}
		s.claim()
		return nil
	}
}

// visit tells what happens in one world.
func (s *story) visit(ctx context.Context, nodes []renewer.Store, i int) error {
	store, err := s.world.store(nodes)
	if err != nil {
		return err
	}
	if c, ok := store.(interface{ Close() }); ok && store != nodes[0] {
		s.AtEnd(func(context.Context) error { c.Close(); return nil })
	}
	for i, name := range []string{"office-a", "office-b"} {
		if s.offices[i], err = newOffice(store, name, demo.TTL); err != nil {
			return err
		}
		s.AtEnd(s.offices[i].keeper.Shutdown)
	}
	if err := s.sellOut(ctx); err != nil {
		return err
	}
	switch i {
	case 1:
		return s.lose(ctx)
	case 2:
		return s.survive(ctx, (len(nodes)-1)/2)
	}
	return nil
}

// open begins a show.
func (s *story) open(name string, think time.Duration) *show {
	s.shows = append(s.shows, &show{name: name, think: think})
	return s.shows[len(s.shows)-1]
}

// sellOut has all customers come at once, to both offices.
func (s *story) sellOut(ctx context.Context) error {
	sh, begun := s.open("evening", handling), time.Now()
	var all sync.WaitGroup
	var seats sync.Map
	for i := range crowd {
		all.Go(func() {
			if seat, err := s.offices[i%2].sell(ctx, sh, patience); err == nil {
				seats.Store(seat, true)
			}
		})
	}
	all.Wait()
	different := 0
	for range seats.Range {
		different++
	}
	s.Print("   %d different seats sold in %s; fencing tokens %d to %d", different,
		demo.Span(time.Since(begun)), sh.first, sh.fence)
	s.Claim(s.world.name+": all customers have a seat of their own",
		different == crowd && sh.most == 1, "%d of %d", different, crowd)
	return context.Cause(ctx)
}

// survive has a few servers go in the middle of a sale, which no office notices.
func (s *story) survive(ctx context.Context, few int) error {
	sh, begun := s.open("matinee", slow), time.Now()
	gone := time.AfterFunc(slow/2, func() { s.Stop(few) })
	defer gone.Stop()
	first, err := s.offices[0].sell(ctx, sh, patience)
	if err != nil {
		return err
	}
	second, err := s.offices[1].sell(ctx, sh, patience)
	took := time.Since(begun) - 2*slow
	s.Print("   seats %d and %d are sold all the same", first, second)
	s.Claim(fmt.Sprintf("%s: no office notices that %d servers are gone", s.world.name, few),
		took < 2*slow && second == first+1, "%s lost", demo.Span(took))
	return err
}

// lose has the server go in the middle of a sale, so that the lock is lost; then it comes back.
func (s *story) lose(ctx context.Context) error {
	sh, begun := s.open("night", demo.TTL+2*slow), time.Now()
	gone := time.AfterFunc(slow/2, func() { s.Stop(1) })
	defer gone.Stop()
	_, lost := s.offices[0].sell(ctx, sh, patience)
	took := time.Since(begun)
	_, down := s.offices[1].sell(ctx, sh, demo.TTL/4)
	isLost, isDown := errors.Is(lost, renewer.ErrLost), errors.Is(down, renewer.ErrUnavailable)
	s.Print("   after %s office-a is told that the lock is lost: %t", demo.Span(took), isLost)
	s.Print("   office-b is told that the lock can't be asked for: %t", isDown)
	s.Claim(s.world.name+": a lock that can't be kept is lost", isLost && took < demo.TTL+slow/2,
		"%t, after %s", isLost, demo.Span(took))
	s.Claim(s.world.name+": a lock that can't be asked for is not busy", isDown, "%t", isDown)
	s.Resume()
	sh.think = handling
	seat, err := s.offices[1].sell(ctx, sh, patience)
	s.Print("   it is back: seat %d is sold", seat)
	return err
}

// claim is about all worlds together.
func (s *story) claim() {
	stale, rising := 0, true
	for i, sh := range s.shows {
		stale += sh.stale
		rising = rising && (i == 0 || sh.first == 0 || sh.first > s.shows[i-1].fence)
	}
	s.Claim("sales under a former lock", stale == 0, "%d", stale)
	s.Claim("fencing tokens rise over the moves, as far as clocks agree", rising, "%v", rising)
}

// errStale means that a later holder of the lock has sold.
var errStale = errors.New("a later holder of the lock has been here")

// show is what is sold, and where it is written down: a database in real life. Two that read, think
// and write at once sell one seat twice.
type show struct {
	name  string
	think time.Duration

	mu     sync.Mutex
	sold   int
	fence  int64 // the highest token that has come with a sale
	first  int64 // and the first one
	inside int
	most   int // at work at once
	stale  int
}

// enter reads which seat is next, and counts who is at work until leave is called.
func (s *show) enter() (seat int, leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside++
	s.most = max(s.most, s.inside)
	return s.sold + 1, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inside--
	}
}

func (s *show) write(seat int, fence int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fence < s.fence {
		s.stale++
		return errStale
	}
	if s.first == 0 {
		s.first = fence
	}
	s.sold, s.fence = seat, fence
	return nil
}
