package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

const (
	crowd    = 40                     // who want a ticket at once
	patience = 5 * time.Second        // of each
	handling = 10 * time.Millisecond  // of a ticket
	slow     = 600 * time.Millisecond // of a ticket that is being sold when servers go
)

// story is one run.
type story struct {
	*page

	servers *servers
	shows   []*show
}

// run tells the story of these worlds on the servers at addrs, and whether all that
// it claims held. The error is not nil if it could not begin, or not be ended.
func run(ctx context.Context, p *page, addrs []string, worlds []world) (held bool, err error) {
	begun := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, mostTime-2*time.Second,
		errors.New("the story took too long"))
	defer cancel()
	all, err := openServers(addrs)
	if err != nil {
		return false, err
	}
	defer all.close()
	s := &story{page: p, servers: all}
	p.print("Two box offices sell tickets, one at a time, to %d people at once. Redis: %d "+
		"servers, %s.", crowd, len(all.all), all.where)
	for i, w := range worlds {
		p.print("\n%d. %-12s %s", i+1, w.name, w.line)
		if err := s.visit(ctx, w, i); err != nil {
			p.claim(w.name+": it came to its end", err.Error(), false)
			break
		}
	}
	return s.end(context.WithoutCancel(ctx), begun)
}

// visit tells what happens in one world.
func (s *story) visit(ctx context.Context, w world, i int) (err error) {
	nodes, end, err := s.servers.nodes()
	if err != nil {
		return err
	}
	defer end()
	store, err := w.store(nodes)
	if err != nil {
		return err
	}
	if c, ok := store.(interface{ Close() }); ok {
		defer c.Close()
	}
	offices, err := openOffices(store)
	if err != nil {
		return err
	}
	defer func() {
		s.servers.resume()
		err = errors.Join(err, closeOffices(offices))
	}()
	if err := s.sellOut(ctx, w, offices); err != nil {
		return err
	}
	few := (len(s.servers.all) - 1) / 2
	switch i {
	case 1:
		return s.lose(ctx, w, offices, 1)
	case 2:
		if err := s.survive(ctx, w, offices, few); err != nil {
			return err
		}
		return s.lose(ctx, w, offices, few+1)
	}
	return nil
}

// open begins a show.
func (s *story) open(name string, think time.Duration) *show {
	sh := &show{name: name, think: think}
	s.shows = append(s.shows, sh)
	return sh
}

// sellOut has everybody come at once, to both offices.
func (s *story) sellOut(ctx context.Context, w world, offices []*office) error {
	sh := s.open("evening", handling)
	begun := time.Now()
	var wg sync.WaitGroup
	var mu sync.Mutex
	seats, sold := make(map[int]bool), 0
	for i := range crowd {
		wg.Go(func() {
			seat, err := offices[i%len(offices)].sell(ctx, sh, patience)
			if err != nil {
				return // the table tells
			}
			mu.Lock()
			defer mu.Unlock()
			sold++
			seats[seat] = true
		})
	}
	wg.Wait()
	s.print("   %d tickets sold in %s, %d different seats; fencing tokens %d to %d", sold,
		ms(time.Since(begun)), len(seats), sh.first, sh.fence)
	s.claim(w.name+": everybody has a seat of their own",
		fmt.Sprintf("%d of %d", len(seats), crowd), len(seats) == crowd && sh.most == 1)
	return context.Cause(ctx)
}

// survive has a few servers go in the middle of a sale, which nobody notices.
func (s *story) survive(ctx context.Context, w world, offices []*office, few int) error {
	sh := s.open("matinee", slow)
	begun := time.Now()
	gone := time.AfterFunc(slow/2, func() { s.servers.stop(few) })
	defer gone.Stop()
	first, err := offices[0].sell(ctx, sh, patience)
	if err != nil {
		return err
	}
	second, err := offices[1].sell(ctx, sh, patience)
	if err != nil {
		return err
	}
	took := time.Since(begun) - 2*slow
	s.print("   %d of %d servers are stopped in the middle of a sale: seats %d and %d are sold "+
		"all the same, %s later than without locks",
		few, len(s.servers.all), first, second, ms(took))
	s.claim(fmt.Sprintf("%s: nobody notices that %d servers are gone", w.name, few),
		ms(took)+" lost", took < slow && second == first+1)
	return nil
}

// lose has so many servers go in the middle of a sale that the lock is lost; then they come back.
func (s *story) lose(ctx context.Context, w world, offices []*office, many int) error {
	sh := s.open("night", 2*lockTTL)
	gone := time.AfterFunc(slow/2, func() { s.servers.stop(many) })
	defer gone.Stop()
	begun := time.Now()
	_, lost := offices[0].sell(ctx, sh, patience)
	took := time.Since(begun)
	_, down := offices[1].sell(ctx, sh, lockTTL/4)
	s.print("   %s stopped in the middle of a sale: the office is told within %s, and sells "+
		"nothing; the other one hears that nobody knows",
		count(many), ms(took))
	s.claim(w.name+": a lock that can't be kept is told", kind(lost),
		errors.Is(lost, renewer.ErrLost) && took < lockTTL+slow/2)
	s.claim(w.name+": a lock that nobody can tell of is not called busy", kind(down),
		errors.Is(down, renewer.ErrUnavailable))

	s.servers.resume()
	sh.think = handling
	seat, err := offices[1].sell(ctx, sh, patience)
	if err != nil {
		return err
	}
	s.print("   they are back: seat %d is sold", seat)
	return nil
}

// end prints the verdict, when nothing of the run is left.
func (s *story) end(ctx context.Context, begun time.Time) (held bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*lockTTL)
	defer cancel()
	s.servers.resume()
	left := -1
	for left != 0 && ctx.Err() == nil {
		if left, err = s.servers.held(ctx); err != nil {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	s.claim("locks left behind", fmt.Sprint(left), left == 0)
	stale, rising := 0, true
	for i, sh := range s.shows {
		stale += sh.stale
		rising = rising && (i == 0 || sh.first == 0 || sh.first > s.shows[i-1].fence)
	}
	s.claim("sales under a former lock", fmt.Sprint(stale), stale == 0)
	s.claim("fencing tokens rise over the moves, as far as clocks agree", fmt.Sprint(rising),
		rising)
	took := time.Since(begun)
	s.claim("time", ms(took), took < mostTime)
	return s.verdict(), errors.Join(err, s.servers.clean(context.WithoutCancel(ctx)))
}

// count says how many servers.
func count(n int) string {
	if n == 1 {
		return "the server is"
	}
	return fmt.Sprintf("%d servers are", n)
}

// kind is what an error says about a lock.
func kind(err error) string {
	switch {
	case errors.Is(err, renewer.ErrLost):
		return "lost"
	case errors.Is(err, renewer.ErrUnavailable):
		return "unavailable"
	case errors.Is(err, renewer.ErrHeld):
		return "busy"
	case errors.Is(err, lockmw.ErrSkipped):
		return "skipped"
	case err == nil:
		return "nothing is said"
	default:
		return err.Error()
	}
}
