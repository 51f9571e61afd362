package redisstore

import (
	"context"
	"runtime"
	"sync"
)

// partyMost bounds how many callers share a command: by then little
// is left to be saved, and the script takes about 0.2 ms.
const partyMost = 64

// gather joins the questions of callers who meet, so that they travel in one command:
// the server answers it at a third of the cost of one each. Nobody is kept waiting for
// company. Whoever finds no question under way asks alone, at once. Else the first to
// come lets those run who could run anyway, and takes along whoever has joined by then.
type gather[Q, A any] struct {
	// alike tells whether two questions can share a command.
	alike func(a, b *Q) bool
	// alone asks one question.
	alone func(ctx context.Context, question []Q) []A
	// together asks several once. It returns nil if they are to be asked again, each alone.
	together func(ctx context.Context, questions []Q) []A
	// unknown is the answer to one whose context ended first.
	unknown func(error) A
	// left is told, before that answer is given, of a question that goes on without its caller;
	// over is closed, and settled told, once the command has been answered or given up. Nil if
	// nobody needs to know.
	left    func(question *Q, over <-chan struct{})
	settled func(question *Q, over <-chan struct{})

	mu    sync.Mutex
	busy  int // commands under way
	party *party[Q, A]
}

// party is who asks together. Its fields are guarded by gather.mu;
// answers is set once done is closed.
type party[Q, A any] struct {
	questions []Q
	left      []int // who does not wait any longer
	ctx       context.Context
	cancel    context.CancelFunc
	over      bool // it has been asked, and done is about to be closed
	done      chan struct{}
	answers   []A
}

// doThrough is do from within a window.
func (g *gather[Q, A]) doThrough(ctx context.Context, w *window, question []Q) []A {
	if err := w.enter(ctx, 1); err != nil {
		return []A{g.unknown(err)}
	}
	defer w.leave(1)
	return g.do(ctx, question)
}

// do asks one question.
func (g *gather[Q, A]) do(ctx context.Context, question []Q) []A {
	g.mu.Lock()
	p, first, i := g.party, false, 0
	switch {
	case p != nil && g.alike(&p.questions[0], &question[0]):
		i = g.enter(p, question[0])
	case p != nil || g.busy == 0:
		p = nil
	default:
		p, first = &party[Q, A]{done: make(chan struct{}), questions: make([]Q, 0, 8)}, true
		g.party = p
		g.enter(p, question[0])
	}
	g.mu.Unlock()
	if first && !g.assemble(p) {
		p = nil
	}
	if p != nil {
		select {
		case <-p.done:
		case <-ctx.Done():
			if g.leave(p, i) {
				return []A{g.unknown(ctx.Err())}
			}
			<-p.done // at the same moment
		}
		if p.answers != nil {
			return p.answers[i : i+1 : i+1]
		}
	}
	return g.ask(ctx, question)
}

// enter adds a question to a party, and closes that if it is full. Under g.mu.
func (g *gather[Q, A]) enter(p *party[Q, A], question Q) int {
	p.questions = append(p.questions, question)
	if len(p.questions) == partyMost {
		g.party = nil
	}
	return len(p.questions) - 1
}

// assemble has a party asked once those have joined it who could run
// anyway. It returns false if nobody has.
func (g *gather[Q, A]) assemble(p *party[Q, A]) bool {
	runtime.Gosched()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.party == p {
		g.party = nil
	}
	if len(p.questions) == 1 {
		return false
	}
	g.busy++
	p.ctx, p.cancel = context.WithCancel(context.Background())
	go g.run(p)
	return true
}

// run asks a party's questions.
func (g *gather[Q, A]) run(p *party[Q, A]) {
	p.answers = g.together(p.ctx, p.questions)
	p.cancel()
	g.mu.Lock()
	g.busy--
	p.over = true
	g.mu.Unlock()
	close(p.done)
	if g.settled != nil {
		for _, i := range p.left {
			g.settled(&p.questions[i], p.done)
		}
	}
}

// leave counts one out who does not wait any longer, unless the answer is there. The last ends the
// question.
func (g *gather[Q, A]) leave(p *party[Q, A], i int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.over {
		return false
	}
	p.left = append(p.left, i)
	if g.left != nil {
		g.left(&p.questions[i], p.done)
	}
	if len(p.left) == len(p.questions) {
		p.cancel()
	}
	return true
}

// ask asks alone.
func (g *gather[Q, A]) ask(ctx context.Context, question []Q) []A {
	g.mu.Lock()
	g.busy++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		g.busy--
		g.mu.Unlock()
	}()
	return g.alone(ctx, question)
}
