package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/renewer"
)

// witness measures what really happens, and takes no lock's word for it:
// it counts the handlers that run, and asks the server itself, by a link
// that is never cut, when a lock is lost. It may be used concurrently.
type witness struct {
	redis *redis
	shelf *shelf
	line  *timeline
	total int
	done  chan struct{} // closed when every report is done

	mu       sync.Mutex
	running  map[string]int // handlers by user
	most     int            // at once, of one user
	finished map[string]bool
	retries  int // used up by reports that are done
	losses   []loss
}

// loss is a lock lost while a handler ran.
type loss struct {
	user     string         // whose
	at       time.Time      // when the handler was told
	reason   renewer.Reason // why
	promised time.Duration  // how long nobody else could have it then, by the lock's own account
	// the same by the server: for how long the key lived on; negative if somebody else had it
	left    time.Duration
	stopped time.Duration // how long after it was told the handler returned
	err     error         // the server could not be asked
}

// notice is left in words.
func (l loss) notice() string {
	switch {
	case l.err != nil:
		return "nobody knows how long: " + l.err.Error()
	case l.left < 0:
		return "no time at all"
	default:
		return ms(l.left)
	}
}

func newWitness(r *redis, s *shelf, t *timeline, total int) *witness {
	return &witness{
		redis: r, shelf: s, line: t, total: total, done: make(chan struct{}),
		running: make(map[string]int), finished: make(map[string]bool),
	}
}

// watch returns render with the witness looking on.
func (w *witness) watch(
	node string, render func(context.Context, Report) error,
) func(context.Context, Report) error {
	return func(ctx context.Context, r Report) error {
		w.enter(r.User)
		defer w.leave(r.User)
		if page := w.shelf.pages(r); page > 0 {
			w.line.say(bold, node, r.User, "%s goes on at page %d of %d", r.ID, page+1, r.Pages)
		}
		told := make(chan *loss, 1)
		unwatch := context.AfterFunc(ctx, func() { told <- w.inspect(ctx, r.User) })
		err := render(ctx, r)
		returned := time.Now()
		if !unwatch() {
			if l := <-told; l != nil {
				l.stopped = returned.Sub(l.at)
				w.note(node, r, *l)
			}
		}
		if err == nil {
			w.finish(ctx, r)
		}
		return err
	}
}

func (w *witness) enter(user string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[user]++
	w.most = max(w.most, w.running[user])
}

func (w *witness) leave(user string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[user]--
}

// inspect asks the server at the moment when a handler's context
// ends. It returns nil if no lock was lost.
func (w *witness) inspect(ctx context.Context, user string) *loss {
	var lost *renewer.LostError
	if !errors.As(context.Cause(ctx), &lost) {
		return nil
	}
	l := &loss{user: user, at: time.Now(), reason: lost.Reason, promised: lost.Left}
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	var fence int64
	l.left, fence, l.err = w.redis.look(ask, lost.Name)
	if fence != lost.Fence {
		l.left = -1 // what lives on is somebody else's
	}
	return l
}

// note takes a loss down.
func (w *witness) note(node string, r Report, l loss) {
	w.mu.Lock()
	w.losses = append(w.losses, l)
	w.mu.Unlock()
	w.line.say(red, node, r.User, "%s stops at page %d of %d, and goes back to the queue", r.ID,
		w.shelf.pages(r), r.Pages)
	w.line.say(red, node, r.User, "Redis itself says: when it was told, the key lived on for %s",
		l.notice())
}

// finish takes a report down as done.
func (w *witness) finish(ctx context.Context, r Report) {
	retried, _ := asynq.GetRetryCount(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished[r.ID] {
		return
	}
	w.finished[r.ID] = true
	w.retries += retried
	if len(w.finished) == w.total {
		close(w.done)
	}
}

// testify writes down what the witness has seen.
func (w *witness) testify(f *figures) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.total, f.done, f.most, f.retries = w.total, len(w.finished), w.most, w.retries
	f.losses = append([]loss(nil), w.losses...)
}
