package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/lockbeat/lockbeat/renewer"
)

var _ renewer.Recorder = (*Store)(nil)

// Records are kept as Paxos does it. A look with a token is the promise of a ballot with that number, by W nodes; what it shows is the
// record with the highest token and number that any of them has; and a write is accepted by W nodes. Any two sets of W nodes share one
// (more than Forgetful(a) of them), so that a look sees whatever has been written, and whoever writes without having heard of a later
// look is refused by a node that they share.
//
// What fewer than W nodes have is not written: its writer may have been refused, and the next look may miss it. So a look with a token
// writes it anew before it shows it, under that token, and one without is not answered.

var (
	errRecorder = fmt.Errorf("%w: %w: it keeps no records; take a node that is a renewer.Recorder", renewer.ErrRejected, renewer.ErrConfig)
	errDiffer   = errors.New("quorum: look: the nodes differ; the next holder of the lock puts that right")
)

// Look implements [renewer.Recorder], on nodes that are Recorders too. One without a token is answered [renewer.Unknown] while it is open
// whether the latest record is on enough nodes.
func (s *Store) Look(ctx context.Context, looks []renewer.Look) []renewer.Seen {
	return sideBySide(looks, func(l renewer.Look) renewer.Seen { return s.look(ctx, l) })
}

// Write implements [renewer.Recorder], on nodes that are Recorders too. A record is written when enough nodes have it.
func (s *Store) Write(ctx context.Context, records []renewer.Record) []renewer.Answer {
	return sideBySide(records, func(r renewer.Record) renewer.Answer {
		r.Seq += firstSeq
		return s.write1(ctx, r)
	})
}

// sideBySide answers each item by itself: records are looked at and written one by one, hardly ever in batches.
func sideBySide[Item, Answer any](items []Item, answer func(Item) Answer) []Answer {
	answers := make([]Answer, len(items))
	var wg sync.WaitGroup
	for i := range items {
		wg.Go(func() { answers[i] = answer(items[i]) })
	}
	wg.Wait()
	return answers
}

// look asks for one record.
func (s *Store) look(ctx context.Context, l renewer.Look) renewer.Seen {
	if err := ctx.Err(); err != nil {
		return renewer.Seen{Err: err}
	}
	if _, err := renewer.Millis(l.TTL); err != nil && l.Fence != 0 {
		return renewer.Seen{Err: err}
	}
	v := s.inspect(ctx, l)
	switch {
	case v.later:
		return renewer.Seen{Status: renewer.Taken}
	case v.told < s.write:
		return renewer.Seen{Err: s.unreachable(ctx, "look", s.write, 0, v.errs)}
	}
	top, nodes := v.latest()
	agreed, ok := v.agreed(s.write)
	switch {
	case nodes >= s.write, l.Fence != 0 && top.Fence == 0:
		return shown(top)
	case l.Fence != 0:
		return s.restore(ctx, l, top)
	case ok:
		return shown(agreed) // what is above it is not written, and may never be
	default:
		return renewer.Seen{Err: errDiffer}
	}
}

// view is what nodes have shown of a record.
type view struct {
	seen  []renewer.Seen // different ones
	nodes []int          // that have each
	told  int            // nodes that have answered
	later bool           // a later holder has looked
	errs  []error        // by node; nil of those that have answered
}

// latest is the record with the highest number, and on how many nodes it is.
func (v *view) latest() (top renewer.Seen, nodes int) {
	for i, seen := range v.seen {
		if nodes == 0 || seen.Fence > top.Fence || seen.Fence == top.Fence && seen.Seq > top.Seq {
			top, nodes = seen, v.nodes[i]
		}
	}
	return top, nodes
}

// agreed is the record that is on so many nodes, if there is one.
func (v *view) agreed(nodes int) (renewer.Seen, bool) {
	for i := range v.seen {
		if v.nodes[i] >= nodes {
			return v.seen[i], true
		}
	}
	return renewer.Seen{}, false
}

// inspect looks on all nodes. When enough have answered and differ, the rest gets a moment to decide it.
func (s *Store) inspect(ctx context.Context, l renewer.Look) *view {
	v := &view{errs: make([]error, len(s.nodes))}
	for x := range v.errs {
		v.errs[x] = errSilent
	}
	p := newPoll(ctx, s, func(*poll[renewer.Seen], reply[renewer.Seen]) {})
	for x := range s.nodes {
		p.ask(x, nil, 1, func(ctx context.Context, node renewer.Store) []renewer.Seen {
			if r, ok := node.(renewer.Recorder); ok {
				return r.Look(ctx, []renewer.Look{l})
			}
			return []renewer.Seen{{Err: errRecorder}}
		}, func(err error) renewer.Seen { return renewer.Seen{Err: err} })
	}
	failed := 0
	_ = p.listen(ctx, func(r reply[renewer.Seen]) bool { // the end of ctx is told with what was not answered by then
		if !v.add(r.node, r.answers[0]) {
			failed++
		}
		_, agreed := v.agreed(s.write)
		if v.told >= s.write && !agreed {
			p.within(max(3*(s.age()-p.age), leastGrace))
		}
		return v.later || agreed || failed > len(s.nodes)-s.write
	})
	return v
}

// add counts what a node has shown, and tells whether it has answered.
func (v *view) add(node int, seen renewer.Seen) bool {
	switch seen.Status {
	case renewer.Taken:
		v.later = true
	case renewer.Mine:
		v.told++
		v.count(seen)
	case renewer.Unknown, renewer.Gone, renewer.Behind:
		v.errs[node] = orStrange(seen.Err)
		return false
	}
	v.errs[node] = nil
	return true
}

func (v *view) count(seen renewer.Seen) {
	for i := range v.seen {
		if v.seen[i].Fence == seen.Fence && v.seen[i].Seq == seen.Seq {
			v.seen[i].TTL = max(v.seen[i].TTL, seen.TTL)
			v.nodes[i]++
			return
		}
	}
	v.seen, v.nodes = append(v.seen, seen), append(v.nodes, 1)
}

// firstSeq is what nodes have a holder's numbers above. Those below are of records that a look has written anew. If such a look was not
// answered and another of the same holder has shown something else, what the holder writes then must be above both.
const firstSeq = 1 << 32

// shown is a node's record as a caller sees it.
func shown(seen renewer.Seen) renewer.Seen {
	seen.Seq = max(0, seen.Seq-firstSeq)
	return seen
}

// restore writes what a look has found on too few nodes for the holder who looks.
func (s *Store) restore(ctx context.Context, l renewer.Look, top renewer.Seen) renewer.Seen {
	r := renewer.Record{Name: l.Name, Fence: l.Fence, Seq: top.Seq, Data: top.Data, TTL: top.TTL}
	if top.Fence != l.Fence {
		r.Seq = s.restored.Add(1)
	}
	if _, err := renewer.Millis(r.TTL); err != nil { // nearly over, or the nodes can't tell
		r.TTL = l.TTL
	}
	v, err := s.put(ctx, r)
	if err != nil {
		return renewer.Seen{Err: err}
	}
	switch status := v.status(); {
	case status == renewer.Mine:
		return shown(renewer.Seen{Status: renewer.Mine, Fence: r.Fence, Seq: r.Seq, Data: r.Data, TTL: r.TTL})
	case v.count[renewer.Taken] > 0: // one node is enough to know of a later holder, as in a look
		return renewer.Seen{Status: renewer.Taken}
	case status == renewer.Unknown:
		return renewer.Seen{Err: s.unreachable(ctx, "look", s.write, v.refused(), v.errors())}
	default:
		return renewer.Seen{Err: errDiffer} // it has lapsed just now, or the holder writes at the same time
	}
}
