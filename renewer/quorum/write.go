package quorum

import (
	"context"

	"github.com/lockbeat/lockbeat/renewer"
)

// vote counts what nodes answer to a write.
type vote struct {
	nodes, write int
	answers      []*renewer.Answer // by node; nil: silent
	count        [renewer.Behind + 1]int
}

func (v *vote) add(node int, a renewer.Answer) {
	v.answers[node] = &a
	v.count[a.Status]++
}

// forget takes a node's answer back, and returns it.
func (v *vote) forget(node int) *renewer.Answer {
	a := v.answers[node]
	if a != nil {
		v.answers[node] = nil
		v.count[a.Status]--
	}
	return a
}

// mine counts the nodes that have the record.
func (v *vote) mine() int { return v.count[renewer.Mine] }

// refused counts those that said no.
func (v *vote) refused() int {
	return v.count[renewer.Taken] + v.count[renewer.Gone] + v.count[renewer.Behind]
}

// joinable tells whether nodes without the term could make up the number: it is there on others, and they have missed the look. So many
// nodes had it that if more are without it than can have missed it, it has lapsed.
func (v *vote) joinable() bool {
	return v.mine() > 0 && v.count[renewer.Gone] <= v.nodes-v.write && v.count[renewer.Taken] == 0 && v.mine()+v.count[renewer.Gone] >= v.write
}

// silent counts those that have not answered.
func (v *vote) silent() int { return v.nodes - v.mine() - v.refused() - v.count[renewer.Unknown] }

// hopeless tells whether the nodes that are silent are too few to make up the number.
func (v *vote) hopeless() bool { return v.mine()+v.silent() < v.write }

// decided tells whether further answers could change anything.
func (v *vote) decided() bool {
	spare := v.nodes - v.write
	switch {
	case v.mine() >= v.write, v.silent() == 0:
		return true
	case v.joinable():
		return false
	default:
		return v.refused() > spare || v.hopeless() && v.refused()+v.silent() <= spare
	}
}

// status is what the writer hears.
func (v *vote) status() renewer.Status {
	switch {
	case v.mine() >= v.write:
		return renewer.Mine
	case v.refused() <= v.nodes-v.write:
		return renewer.Unknown
	case v.count[renewer.Taken] > 0:
		return renewer.Taken
	case v.count[renewer.Behind] > 0:
		return renewer.Behind
	default:
		return renewer.Gone
	}
}

// errors are those of the nodes that did not tell.
func (v *vote) errors() []error {
	errs := make([]error, v.nodes)
	for x, a := range v.answers {
		switch {
		case a == nil:
			errs[x] = errSilent
		case a.Status == renewer.Unknown:
			errs[x] = orStrange(a.Err)
		}
	}
	return errs
}

// write1 writes one record.
func (s *Store) write1(ctx context.Context, r renewer.Record) renewer.Answer {
	v, err := s.put(ctx, r)
	if err != nil {
		return renewer.Answer{Err: err}
	}
	status := v.status()
	if status == renewer.Unknown {
		return renewer.Answer{Err: s.unreachable(ctx, "write", s.write, v.refused(), v.errors())}
	}
	return renewer.Answer{Status: status}
}

// put puts a write to the vote.
func (s *Store) put(ctx context.Context, r renewer.Record) (*vote, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if _, err := renewer.Millis(r.TTL); err != nil {
		return nil, err
	}
	v := &vote{nodes: len(s.nodes), write: s.write, answers: make([]*renewer.Answer, len(s.nodes))}
	s.canvass(ctx, r, v, false)
	if v.mine() < s.write && v.joinable() {
		s.canvass(ctx, r, v, true)
	}
	return v, nil
}

// canvass puts a write to all nodes; or, to join, only to those without the term, having made up for the look that they have missed.
func (s *Store) canvass(ctx context.Context, r renewer.Record, v *vote, join bool) {
	p := newPoll(ctx, s, func(*poll[renewer.Answer], reply[renewer.Answer]) {})
	for x := range s.nodes {
		known := v.forget(x)
		p.ask(x, nil, 1, func(ctx context.Context, node renewer.Store) []renewer.Answer {
			recorder, ok := node.(renewer.Recorder)
			switch {
			case !ok:
				return []renewer.Answer{{Err: errRecorder}}
			case join && known == nil:
				return []renewer.Answer{{Err: errSilent}}
			case join && known.Status != renewer.Gone:
				return []renewer.Answer{*known}
			case join:
				recorder.Look(ctx, []renewer.Look{{Name: r.Name, Fence: r.Fence, TTL: r.TTL}}) // the write tells what came of it
			}
			return recorder.Write(ctx, []renewer.Record{r})
		}, unanswered)
	}
	_ = p.listen(ctx, func(reply reply[renewer.Answer]) bool { // the end of ctx is told with what was not answered by then
		v.add(reply.node, reply.answers[0])
		if v.joinable() || v.hopeless() { // a moment more makes it certain, or else it can do without
			p.within(max(3*(s.age()-p.age), leastGrace))
		}
		return v.decided()
	})
}
