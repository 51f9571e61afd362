package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/renewer"
)

// witness measures what really happens, and takes no lock's word for it: it
// counts the handlers that run, and asks the server itself, by a link that is
// never cut, when a lock is lost.
type witness struct {
	demo  *demo.Demo
	shelf *shelf
	long  Report
	total int

	held  chan string   // the node that is at work on the long report, once it has been for a while
	taken chan struct{} // closed when another node has the lock of that report's user
	done  chan struct{} // closed when every report is done

	mu       sync.Mutex
	running  map[string]int // handlers by user
	most     int            // at once, of one user
	finished map[string]bool
	retries  int // that finished reports have used up
	losses   []loss
	cut      string // the node whose link is cut
	orphaned bool   // it has lost the lock of the long report
	saver    string // the node that took over
}

// loss is a lock lost while a handler ran.
type loss struct {
	user     string
	at       time.Time      // when the handler was told
	reason   renewer.Reason // why
	promised time.Duration  // how long no other process could have it then, says the lock
	left     time.Duration  // the same, says the server
	asked    time.Duration  // how long it took to ask the server
	stopped  time.Duration  // how long after it was told the handler returned
	err      error          // why the server does not say so: the lock has ended, for one
}

func newWitness(d *demo.Demo, reports []Report) *witness {
	return &witness{
		demo: d, shelf: newShelf(), long: reports[long], total: len(reports),
		held: make(chan string), taken: make(chan struct{}), done: make(chan struct{}),
		running: make(map[string]int), finished: make(map[string]bool),
	}
}

// watch returns render with the witness looking on.
func (w *witness) watch(
	node string, render func(context.Context, Report) error,
) func(context.Context, Report) error {
	return func(ctx context.Context, r Report) error {
		w.begins(node, r)
		if r.ID == w.long.ID {
			w.demo.Event(node, "%s: %s is a LONG one, from page %d to %d",
				r.User, r.ID, w.shelf.pages(r)+1, r.Pages)
			over := make(chan struct{})
			defer close(over)
			time.AfterFunc(cutAfter, func() {
				select {
				case w.held <- node:
				case <-over:
				}
			})
		}
		told := make(chan loss, 1)
		unwatch := context.AfterFunc(ctx, func() { told <- w.inspect(ctx, node, r) })
		err := render(ctx, r)
		if returned := time.Now(); !unwatch() {
			w.note(node, r, <-told, returned)
		}
		w.ends(ctx, r, err)
		return err
	}
}

func (w *witness) begins(node string, r Report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[r.User]++
	w.most = max(w.most, w.running[r.User])
	if w.orphaned && r.User == w.long.User && w.saver == "" {
		w.saver = node
		w.demo.Event(node, "%s: TAKES OVER with %s", r.User, r.ID)
		close(w.taken)
	}
}

func (w *witness) ends(ctx context.Context, r Report, err error) {
	retried, _ := asynq.GetRetryCount(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[r.User]--
	if err != nil || w.finished[r.ID] {
		return
	}
	w.finished[r.ID] = true
	w.retries += retried
	if len(w.finished) == w.total {
		close(w.done)
	}
}

// inspect asks the server at the moment when the context of a handler ends. The
// lease is read after its time: if its fencing token, on its second line, is
// not above ours, both were of our grant.
func (w *witness) inspect(ctx context.Context, node string, r Report) (l loss) {
	var lost *renewer.LostError
	if !errors.As(context.Cause(ctx), &lost) {
		return l
	}
	l = loss{user: r.User, at: time.Now(), reason: lost.Reason, promised: lost.Left}
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	key, redis := w.demo.Prefix(node)+"{"+lost.Name+"}", w.demo.Servers[0].Direct
	replies := redis.DoMulti(ask, redis.B().Pttl().Key(key).Build(),
		redis.B().Get().Key(key).Build())
	l.asked = time.Since(l.at)
	ms, err := replies[0].AsInt64()
	value, valueErr := replies[1].ToString()
	l.left, l.err = time.Duration(ms)*time.Millisecond, errors.Join(err, valueErr)
	var fence int64
	if l.err == nil {
		_, l.err = fmt.Sscanf(value, "%s\n%d\n", new(string), &fence)
	}
	if fence > lost.Fence {
		l.err = fmt.Errorf("another process had it, with token %d above %d", fence, lost.Fence)
	}
	return l
}

// note writes a loss down; l is empty if no lock was lost.
func (w *witness) note(node string, r Report, l loss, returned time.Time) {
	if l.user == "" {
		return
	}
	l.stopped = returned.Sub(l.at)
	w.demo.Event(node, "%s: %s stops at page %d of %d, and goes back to the queue", r.User, r.ID,
		w.shelf.pages(r), r.Pages)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orphaned = w.orphaned || node == w.cut && r.User == w.long.User
	w.losses = append(w.losses, l)
}

// claim compares what was promised with what was measured. failed is how many
// runs of a task asynq has counted as failed.
func (w *witness) claim(d *demo.Demo, failed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d.Claim("tasks run", len(w.finished) == w.total, "%d/%d", len(w.finished), w.total)
	d.Claim("most at once per key", w.most == 1, "%d", w.most)
	retries := max(w.retries, failed)
	d.Claim("retries consumed", retries == 0, "%d", retries)
	d.Claim("losses", len(w.losses) > 0, "%d", len(w.losses))
	heard := slices.DeleteFunc(slices.Clone(w.losses), func(l loss) bool {
		return l.asked >= l.promised // the machine is too busy for the server's word to count
	})
	if len(heard) > 0 {
		late := slices.MinFunc(heard, func(a, b loss) int {
			return cmp.Compare(a.left-a.stopped, b.left-b.stopped)
		})
		inTime := !slices.ContainsFunc(heard, func(l loss) bool {
			return l.err != nil || l.reason != renewer.ReasonExpired || l.left <= 0
		})
		says := demo.Span(late.left)
		if late.err != nil {
			says = late.err.Error()
		}
		d.Claim("handler told before the key could expire", inTime, "%s by Redis, %s by the lock",
			says, demo.Span(late.promised))
		d.Claim("handler had returned before that", late.left > late.stopped, "%s",
			demo.Span(late.left-late.stopped))
	}
	if len(w.losses) > 0 {
		d.Claim("another node took over", w.saver != "" && w.saver != w.cut,
			"%s", w.saver)
	}
	d.Claim("pages written by a former holder", w.shelf.stale == 0, "%d", w.shelf.stale)
}
