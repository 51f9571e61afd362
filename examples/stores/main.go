// Stores moves one program from locks in memory to one Redis, and from there to
// five servers of which any two may fail. Each move changes one line.
//
//	go run ./examples/stores                                # five servers run inside the program
//	go run ./examples/stores -redis a:6379,b:6379,c:6379    # on your own, an odd number
//
// Two box offices sell the same tickets, under a lock that the code which sells
// never sees. In each of the three worlds the program prints what it sold, and
// what happens when servers are gone in the middle. The exit status is 1 if
// anything that it claims did not hold.
//
// Read app.go first: it is what you would write, with the lines that change.
// main.go plays the crowd and the accidents; internal/ledger is the database.
package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	crowd    = 40              // customers who want a ticket at once
	patience = 5 * time.Second // of each
	tickets  = 1000
	slow     = 300 * time.Millisecond // how long a ticket is being sold when servers go
)

func main() { demo.Main(demo.Setting{Program: "stores", Servers: 5}, tell(worlds)) }

// story is one run.
type story struct {
	*demo.Demo

	world   world
	offices [2]*office
	ledger  *ledger.Ledger
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
		s := &story{Demo: d, ledger: ledger.New(map[string]int{"tickets": tickets, "sold": 0})}
		for i, w := range worlds {
			d.Print("\n%d. %-12s %s", i+1, w.name, w.line)
			s.world = w
			if err := s.visit(ctx, nodes, i); err != nil {
				return err
			}
		}
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
		if s.offices[i], err = newOffice(store, s.ledger, name, demo.TTL); err != nil {
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

// sell has an office sell a ticket, which takes it some time.
func (s *story) sell(
	ctx context.Context, office int, takes, wait time.Duration,
) (left int, err error) {
	sale := ledger.Order{From: "tickets", To: "sold", Amount: 1, Seconds: takes.Seconds()}
	return s.offices[office].sell(ctx, sale, wait)
}

// sellOut has all customers come at once, to both offices.
func (s *story) sellOut(ctx context.Context) error {
	begun := time.Now()
	var all sync.WaitGroup
	var lefts [crowd]int
	var faults [crowd]error
	for i := range crowd {
		all.Go(func() { lefts[i], faults[i] = s.sell(ctx, i%2, 5*time.Millisecond, patience) })
	}
	all.Wait()
	slices.Sort(lefts[:])
	different, err := len(slices.Compact(lefts[:])), errors.Join(faults[:]...)
	_, _, most := s.ledger.Account("tickets")
	s.Print("   %d different tickets sold in %s", different, demo.Span(time.Since(begun)))
	s.Claim(s.world.name+": all customers have a ticket of their own",
		err == nil && different == crowd && most == 1, "%d of %d", different, crowd)
	rise := !errors.Is(err, ledger.ErrStale)
	s.Claim(s.world.name+": fencing tokens rise, as far as clocks agree", rise, "%t", rise)
	return context.Cause(ctx)
}

// stopAmid has servers go in the middle of the sale that comes next. The caller
// must call stopped after the sale.
func (s *story) stopAmid(ctx context.Context, n int) (stopped func()) {
	ctx, sold := context.WithCancel(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if s.ledger.Await(ctx, "tickets") == nil {
			<-time.After(slow / 2)
		}
		s.Stop(n)
	}()
	return func() { sold(); <-gone }
}

// survive has a few servers go in the middle of a sale, which no office
// notices.
func (s *story) survive(ctx context.Context, few int) error {
	begun := time.Now()
	stopped := s.stopAmid(ctx, few)
	first, err := s.sell(ctx, 0, slow, patience)
	stopped()
	if err != nil {
		return err
	}
	second, err := s.sell(ctx, 1, slow, patience)
	took := time.Since(begun) - 2*slow
	s.Print("   two tickets are sold all the same: %d are left, and %d", first, second)
	s.Claim(fmt.Sprintf("%s: no office notices that %d servers are gone", s.world.name, few),
		took < demo.TTL && second == first-1, "%s lost", demo.Span(took))
	return err
}

// lose has the server go in the middle of a sale, so that the lock is lost;
// then it comes back.
func (s *story) lose(ctx context.Context) error {
	before, _, _ := s.ledger.Account("tickets")
	begun := time.Now()
	stopped := s.stopAmid(ctx, 1)
	_, lost := s.sell(ctx, 0, 2*demo.TTL, patience)
	took := time.Since(begun)
	stopped()
	_, down := s.sell(ctx, 1, 0, demo.TTL/4)
	isLost, isDown := errors.Is(lost, renewer.ErrLost), errors.Is(down, renewer.ErrUnavailable)
	s.Print("   after %s office-a is told that the lock is lost: %t", demo.Span(took), isLost)
	s.Print("   office-b is told that the lock can't be asked for: %t", isDown)
	s.Claim(s.world.name+": a lock that can't be kept is lost", isLost, "%t, after %s",
		isLost, demo.Span(took))
	s.Claim(s.world.name+": a lock that can't be asked for is not busy", isDown, "%t", isDown)
	s.Resume()
	left, err := s.sell(ctx, 1, 0, patience)
	s.Print("   it is back: %d ticket is sold", before-left)
	return err
}
