package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

var _ renewer.Recorder = (*Store)(nil)

// Records are kept as Paxos does it: a look with a token is the promise of a ballot with that number, of W nodes; what it shows is the
// record with the highest token and number that any of them has; and a write is accepted by W nodes. Any two sets of W nodes share one
// (more than Forgetful(a) of them), so that a look sees whatever has been written, and whoever writes without having heard of a later
// look is refused by the node that they share.
//
// What fewer than W nodes have may have been refused to its writer. A look does not show it as it is, since the next could miss it: one
// with a token writes it anew first, under that token, and one without gets no answer.

var (
	errRecorder = fmt.Errorf("%w: %w: the node keeps no records; take a renewer.Recorder", renewer.ErrRejected, renewer.ErrConfig)
	errDiffer   = errors.New("the nodes differ; the next holder of the lock puts that right")
)

// Look implements [renewer.Recorder]: see there. One without a token is answered [renewer.Unknown] while nodes differ that matter. All nodes
// must be Recorders.
func (s *Store) Look(ctx context.Context, looks []renewer.Look) []renewer.Seen {
	return each(looks, func(l renewer.Look) renewer.Seen { return s.look(ctx, l) })
}

// Write implements [renewer.Recorder]: see there. A record is written when W nodes have it.
func (s *Store) Write(ctx context.Context, records []renewer.Record) []renewer.Answer {
	return each(records, func(r renewer.Record) renewer.Answer { return s.write(ctx, r) })
}

// each answers items side by side. They are few: records are written one by one.
func each[Item, Answer any](items []Item, answer func(Item) Answer) []Answer {
	answers := make([]Answer, len(items))
	var wg sync.WaitGroup
	for i := range items {
		wg.Go(func() { answers[i] = answer(items[i]) })
	}
	wg.Wait()
	return answers
}

func (s *Store) look(ctx context.Context, l renewer.Look) renewer.Seen {
	if err := ctx.Err(); err != nil {
		return renewer.Seen{Err: err}
	}
	if _, err := renewer.Millis(l.TTL); err != nil && l.Fence != 0 {
		return renewer.Seen{Err: err}
	}
	e := s.inspect(ctx, l)
	switch {
	case e.later:
		return renewer.Seen{Status: renewer.Taken}
	case e.answers < s.write0():
		return renewer.Seen{Err: s.unreachable(ctx, "look", s.write, 0, e.errs)}
	case e.having >= s.write || l.Fence != 0 && e.top.Fence == 0:
		return e.top
	case l.Fence == 0:
		return renewer.Seen{Err: errDiffer}
	}
	return s.restore(ctx, l, e.top)
}
