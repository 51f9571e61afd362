// Quickstart shows Lockbeat at work. Two asynq servers, "node-a" and "node-b",
// render reports for five users. Of each user's reports only one may be
// rendered at a time, on whichever node; the code that renders them knows
// nothing of that. In the middle, the link between one node and the lock server
// is cut while the node works on a long report.
//
//	go run ./examples/quickstart                          # Redis runs inside the program
//	go run ./examples/quickstart -redis localhost:6379    # on your own, left as it was found
//
// It prints what happens as it happens, then what was measured. The exit status
// is 1 if anything that Lockbeat promises did not hold.
//
// Read app.go first: it is what you would write. The rest plays the accident
// (main.go), prints what the locks tell (observer.go), and measures what really
// happened (witness.go).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

func main() { demo.Main(demo.Setting{Program: "quickstart"}, tell) }

const (
	taskType = "report:render"
	total    = 50
	long     = 4 // the place of the long report, which is one of eve's
	// margin is how long before its lock may be another's a task is told. The
	// default is TTL/10.
	margin = 500 * time.Millisecond
	// cutAfter is when the link is cut: by then the long report's lock has been
	// renewed.
	cutAfter = demo.TTL/3 + 200*time.Millisecond
	// pageTime is how long it takes to render a page.
	pageTime = 30 * time.Millisecond
	// soon is how long a task stays in its queue when it has not had its lock
	// to the end.
	soon = 300 * time.Millisecond
)

// node is what runNode needs of the demonstration.
type node struct {
	redis  redisstore.Deployment // for locks
	tasks  asynq.RedisClientOpt
	queue  string
	config renewer.Config
	render func(context.Context, Report) error
}

// orders are the reports, two to seven pages each, but for one of eve's.
func orders() []Report {
	users, reports := []string{"ada", "bob", "carl", "dora", "eve"}, make([]Report, total)
	for i := range reports {
		id := fmt.Sprintf("report-%02d", i+1)
		reports[i] = Report{ID: id, User: users[i%len(users)], Pages: 2 + i*7%6}
	}
	reports[long].Pages = 120 // 3.6 seconds, more than it is granted
	return reports
}

// tell is the story. It goes on by cues from what happens on the nodes.
func tell(ctx context.Context, d *demo.Demo) error {
	reports := orders()
	w := newWitness(d, reports)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	tasks := asynq.RedisClientOpt{Addr: d.Servers[0].Addr}
	inspector, client := asynq.NewInspector(tasks), asynq.NewClient(tasks)
	d.AtEnd(func(context.Context) error {
		_ = inspector.DeleteQueue(d.Name, true) // there is none before the first order
		_ = client.Close()
		return inspector.Close()
	})
	links := make(map[string]*proxy.Proxy)
	for _, name := range []string{"node-a", "node-b"} {
		link, err := start(ctx, d, w, name, tasks, fail)
		if err != nil {
			return err
		}
		links[name] = link
	}
	d.Print("Two asynq servers render %d reports for five users, of each user one at a time. "+
		"Redis: %s.", len(reports), d.Where())
	d.Print("A lock ends %v after its last heartbeat. If none gets through, the task is told %v "+
		"before that.", demo.TTL, margin)
	d.Title("    time    node      what happens")

	d.Event("", "%d reports are ordered", total)
	var ordering sync.WaitGroup
	ordering.Go(func() {
		if err := order(ctx, client, d.Name, reports); err != nil {
			fail(err)
		}
	})
	defer func() { fail(nil); ordering.Wait() }()
	cut, err := demo.Wait(ctx, w.held)
	if err != nil {
		return err
	}
	d.Event(cut, "THE LINK between this node and the locks is CUT: nothing arrives, "+
		"and no process is told")
	w.mu.Lock()
	w.cut = cut
	w.mu.Unlock()
	links[cut].Blackhole(proxy.Both)
	if _, err := demo.Wait(ctx, w.taken); err != nil {
		return err
	}
	links[cut].Heal()
	d.Event(cut, "the link is HEALED")
	if _, err := demo.Wait(ctx, w.done); err != nil {
		return err
	}
	queue, err := inspector.GetQueueInfo(d.Name)
	if err != nil {
		return err
	}
	w.claim(d, max(queue.Failed, queue.Archived))
	return nil
}

// start starts a node with a link of its own to the locks; tasks come another
// way.
func start(
	ctx context.Context, d *demo.Demo, w *witness, name string, tasks asynq.RedisClientOpt,
	fail context.CancelCauseFunc,
) (*proxy.Proxy, error) {
	option, link, err := d.Link(0)
	if err != nil {
		return nil, err
	}
	n := node{
		redis: redisstore.Deployment{Option: option, Prefix: d.Prefix(name), TTL: demo.TTL},
		tasks: tasks, queue: d.Name,
		config: renewer.Config{
			TTL: demo.TTL, Margin: margin, Node: name, Observer: &observer{node: name, demo: d},
			Log: renewer.Silent, // the observer tells it
		},
		render: w.watch(name, w.shelf.render),
	}
	ended := make(chan error, 1)
	go func() {
		err := runNode(ctx, n)
		// A machine on which many processes start at once may need more than
		// one attempt.
		for errors.Is(err, renewer.ErrUnavailable) && ctx.Err() == nil {
			<-time.After(50 * time.Millisecond)
			err = runNode(ctx, n)
		}
		fail(err) // if it has ended before the story
		ended <- err
	}()
	d.AtEnd(func(context.Context) error { return <-ended })
	return link, nil
}

// order enqueues reports.
func order(ctx context.Context, client *asynq.Client, queue string, reports []Report) error {
	for _, r := range reports {
		payload, err := json.Marshal(r)
		if err != nil {
			return err
		}
		task := asynq.NewTask(taskType, payload)
		_, err = client.EnqueueContext(ctx, task, asynq.Queue(queue), asynq.TaskID(r.ID))
		if err != nil {
			return fmt.Errorf("order %s: %w", r.ID, err)
		}
		if _, err := demo.Wait(ctx, time.After(20*time.Millisecond)); err != nil {
			return err
		}
	}
	return nil
}

func retryDelay(n int, err error, task *asynq.Task) time.Duration {
	if errors.Is(err, renewer.ErrLost) {
		return soon
	}
	return asynq.DefaultRetryDelayFunc(n, err, task)
}

// errStale means that a later holder of the lock has written a page of the
// user's.
var errStale = errors.New("a later holder of the lock has been here")

// shelf is where the pages go: a database in real life. It refuses a page with
// a lower fencing token than it has seen for the user. That stops even a
// process that was paused for so long that it does not know yet that its lock
// is lost.
type shelf struct {
	mu    sync.Mutex
	done  map[string]int   // pages by report
	fence map[string]int64 // highest by user
	stale int              // pages refused
}

func newShelf() *shelf { return &shelf{done: make(map[string]int), fence: make(map[string]int64)} }

func (s *shelf) pages(r Report) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[r.ID]
}

func (s *shelf) put(r Report, page int, fence int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fence < s.fence[r.User] {
		s.stale++
		return errStale
	}
	s.fence[r.User], s.done[r.ID] = fence, page+1
	return nil
}
