package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// office sells tickets of a show. Nothing here changes when the locks move.
type office struct {
	name   string
	keeper *renewer.Keeper
}

// sell sells the next ticket, under the show's lock. It gives up when it has waited for so long.
func (o *office) sell(ctx context.Context, s *show, wait time.Duration) (seat int, err error) {
	return lockmw.Do(ctx, o.keeper, lockmw.Key("show", s.name), s.sellNext, lockmw.Wait(wait))
}

// errStale means that somebody has sold under a later lock.
var errStale = errors.New("a later holder of the lock has been here")

// show is what is sold, and where it is written down, a database in real life.
// Whoever reads, thinks and writes at the same time as another sells one seat twice.
type show struct {
	name  string
	think time.Duration

	mu     sync.Mutex
	sold   int
	fence  int64 // the highest token that has come with a sale
	first  int64 // and the first one
	inside int
	most   int // of those who sold at once
	stale  int
}

// sellNext is the work. It knows nothing of locks but the number that
// it passes on with what it writes.
func (s *show) sellNext(ctx context.Context) (seat int, err error) {
	s.mu.Lock()
	seat = s.sold + 1
	s.inside++
	s.most = max(s.most, s.inside)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.inside--
		s.mu.Unlock()
	}()
	select {
	case <-time.After(s.think): // print it, take the money
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return seat, s.write(seat, lockmw.Fence(ctx))
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
