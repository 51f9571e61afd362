package quorum_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The model is the rule without the code: what a node does with a request, and
// what an acquirer does with the answers. Every order of events is explored. A
// request may reach a node at any time after it was sent, more than once or
// never; a reply may get lost; an acquirer may crash or give up at any time,
// and try again with a higher token; what it has on a node ends at any time
// when it does not believe in it any more, by a release or by its TTL. That it
// does not end sooner is what the deadlines are for; see the package
// documentation.

const (
	acquirers = 3
	mostNodes = 3
	mostTries = 2
)

// rules are what is to be proved, or to be seen to fail.
type rules struct {
	nodes, write int
	forget       int // nodes that may forget everything, one after the other or at once
	tries        [acquirers]int8
	first        [acquirers]int8 // the tokens that the acquirers begin with, by their clocks
	naive        bool            // a node accepts any token, and counts the highest
	// a release sent when an attempt was given up may come after the next
	// attempt's request
	unbarred bool
}

// world is a state of everything. It is comparable.
type world struct {
	node    [mostNodes]nodeState
	who     [acquirers]acquirer
	highest int8 // token granted
	forgot  int8
}

type nodeState struct {
	counter, owner, token int8            // owner 0: free
	votes                 [acquirers]bool // that have been heard for each acquirer's present token
}

type phase int8

const (
	asking phase = iota
	holding
	over
)

type acquirer struct {
	token [mostTries]int8
	try   int8 // the present one
	since int8 // the first of the present attempt: each raise of the token is another
	seen  int8 // the highest counter heard of
	phase phase
}

func (a *acquirer) now() int8 { return a.token[a.try] }

// event is what happened: a text with the acquirer's letter and a number in it.
type event struct {
	text   string
	who    int8
	number int8
}

func (e event) String() string {
	s := strings.ReplaceAll(e.text, "X", string(rune('A'+e.who)))
	return strings.ReplaceAll(s, "#", strconv.Itoa(int(e.number)))
}

// step is an event and the world that it led to.
type step struct {
	event
	world world
}

func (r rules) begin() world {
	var w world
	for i := range w.who {
		w.who[i].token[0] = r.first[i]
	}
	return r.canonical(w)
}

// canonical makes one of worlds that are alike: nodes are sorted, and
// what is of no use any more is forgotten.
func (r rules) canonical(w world) world {
	for i := range w.who {
		if w.who[i].phase != asking {
			for n := range w.node {
				w.node[n].votes[i] = false
			}
		}
	}
	slices.SortFunc(w.node[:r.nodes], func(a, b nodeState) int { return int(a.rank() - b.rank()) })
	return w
}

func (n nodeState) rank() int32 {
	v := int32(n.counter)<<16 | int32(n.owner)<<12 | int32(n.token)<<4
	for i, vote := range n.votes {
		if vote {
			v |= 1 << i
		}
	}
	return v
}

// next are all that may happen in a world.
func (r rules) next(w world) (steps []step) {
	add := func(to world, text string, who, number int8) {
		if to = r.canonical(to); to != w {
			steps = append(steps, step{event{text, who, number}, to})
		}
	}
	for i := range w.who {
		r.acquire(w, int8(i), add)
		for n := range r.nodes {
			for try := range w.who[i].try + 1 {
				r.deliver(w, int8(i), n, try, add)
			}
		}
	}
	for n := range r.nodes {
		if owner := w.node[n].owner; owner != 0 && !r.pinned(w, n) {
			to := w
			to.node[n].owner, to.node[n].token = 0, 0
			add(to, "X's on a node ends", owner-1, 0)
		}
		if int(w.forgot) < r.forget {
			to := w
			to.forgot++
			to.node[n] = nodeState{votes: w.node[n].votes}
			add(to, "a node forgets that its counter was #", 0, w.node[n].counter)
		}
	}
	return steps
}

// pinned reports whether what is held on a node can't end, since its owner
// still counts on it.
func (r rules) pinned(w world, n int) bool {
	a := &w.who[w.node[n].owner-1]
	if a.phase == over {
		return false
	}
	if r.unbarred && a.since > 0 && a.phase == asking {
		return false
	}
	return w.node[n].token >= a.token[a.since]
}

// acquire are the steps of an acquirer by itself.
func (r rules) acquire(w world, i int8, add func(world, string, int8, int8)) {
	a := w.who[i]
	again := func(keep bool, text string) {
		if a.try+1 >= r.tries[i] {
			return
		}
		to := w
		b := &to.who[i]
		b.try++
		b.token[b.try] = max(a.now(), a.seen) + 1
		if !keep {
			b.since, b.phase = b.try, asking
		}
		for n := range to.node {
			to.node[n].votes[i] = false
		}
		add(to, text, i, b.now())
	}
	switch a.phase {
	case asking:
		votes := 0
		for _, n := range w.node {
			if n.votes[i] {
				votes++
			}
		}
		if votes >= r.write {
			to := w
			to.who[i].phase = holding
			to.highest = max(w.highest, a.now())
			add(to, "X is granted #", i, a.now())
		}
		again(true, "X goes on with #")
		fallthrough
	case holding:
		to := w
		to.who[i].phase = over
		add(to, "X stops", i, 0)
	case over:
		again(false, "X tries again with #")
	}
}

// deliver is a request that reaches a node. That the reply to a grant is lost
// need not be told apart: it is as if the acquirer did not make use of it.
func (r rules) deliver(w world, i int8, n int, try int8, add func(world, string, int8, int8)) {
	a, at := w.who[i], w.node[n]
	token := a.token[try]
	to := w
	node := &to.node[n]
	switch {
	case at.owner != 0 && at.owner != i+1:
		return // taken: nothing is learnt
	case at.owner == i+1 && at.token == token, token > at.counter, r.naive:
		node.owner, node.token, node.counter = i+1, token, max(token, at.counter)
		node.votes[i] = node.votes[i] || try == a.try
		add(to, "a node grants X #", i, token)
	default:
		to.who[i].seen = max(a.seen, at.counter)
		add(to, "a node tells X of #", i, at.counter)
	}
}

// wrong is what a step from one world to another breaks.
func wrong(from, to world) string {
	holders := 0
	for i := range to.who {
		if to.who[i].phase != holding {
			continue
		}
		holders++
		if from.who[i].phase != holding && to.who[i].now() <= from.highest {
			return fmt.Sprintf("token %d granted after %d", to.who[i].now(), from.highest)
		}
	}
	if holders > 1 {
		return fmt.Sprintf("%d holders at once", holders)
	}
	return ""
}

// explore looks at every world that can be reached, nearest first, up to
// a number of them. It returns how it came to one that is wrong, or "".
func (r rules) explore(most int) (story string, worlds int) {
	type place struct {
		world  world
		from   int32
		by     event
		broken string
	}
	places := []place{{world: r.begin(), from: -1}}
	seen := map[world]struct{}{places[0].world: {}}
	for at := 0; at < len(places); at++ {
		for _, s := range r.next(places[at].world) {
			broken := wrong(places[at].world, s.world)
			if _, known := seen[s.world]; known && broken == "" {
				continue
			}
			seen[s.world] = struct{}{}
			places = append(places, place{s.world, int32(at), s.event, broken})
			if broken != "" {
				lines := []string{broken}
				for i := int32(len(places) - 1); i > 0; i = places[i].from {
					lines = append(lines, places[i].by.String())
				}
				slices.Reverse(lines)
				return strings.Join(lines, "\n"), len(places)
			}
			if len(places) > most {
				return "too many worlds", len(places)
			}
		}
	}
	return "", len(places)
}
