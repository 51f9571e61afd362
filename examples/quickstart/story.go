package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/testutil/proxy"
)

const (
	early = 40                    // reports ordered from the beginning
	late  = 10                    // reports ordered when the link is healed
	pace  = 30 * time.Millisecond // between two orders
	// into the long report: by then its lock has been prolonged twice
	cutAfter = 1500 * time.Millisecond
	long     = 4 // the long report's place, which is one of eve's
	// pages of the long report: five seconds, more than it is granted
	longest = 100
)

var users = []string{"ada", "bob", "carl", "dora", "eve"}

// orders are the reports, two to seven pages each, but for one of eve's.
func orders() []Report {
	reports := make([]Report, early+late)
	for i := range reports {
		reports[i] = Report{
			ID: fmt.Sprintf("report-%02d", i+1), User: users[i%len(users)],
			Pages: 2 + i*7%6,
		}
	}
	reports[long].Pages = longest
	return reports
}

// stage is all that the story needs.
type stage struct {
	line    *timeline
	redis   *redis
	orders  []Report
	cues    *cues
	totals  *totals
	shelf   *shelf
	witness *witness
	client  *asynq.Client
	links   map[string]*proxy.Proxy // each node's to the locks; tasks come another way
	nodes   []*node
	cut     string // the node whose link is cut
	saved   string // the node that took over
}

// run plays the story and returns what was measured. The error is not nil if it could
// not even begin; of a promise broken, or an end that was not reached, the figures tell.
func run(ctx context.Context, t *timeline, address string) (f figures, err error) {
	r, err := openRedis(address)
	if err != nil {
		return f, err
	}
	defer r.close()
	s := newStage(t, r)
	defer func() {
		if err := s.strike(&f); err != nil {
			f.faults = append(f.faults, err.Error())
		}
	}()
	if err := s.build(); err != nil {
		return f, err
	}
	s.introduce()
	ctx, cancel := context.WithTimeoutCause(ctx, mostTime-time.Second,
		errors.New("the story took too long"))
	defer cancel()
	if err := s.play(ctx); err != nil {
		f.faults = append(f.faults, err.Error())
	}
	return f, nil
}

func newStage(t *timeline, r *redis) *stage {
	s := &stage{
		line: t, redis: r, orders: orders(), totals: &totals{}, shelf: newShelf(),
		client: asynq.NewClient(r.tasks()), links: make(map[string]*proxy.Proxy),
	}
	s.cues = newCues(s.orders[long])
	s.witness = newWitness(r, s.shelf, t, len(s.orders))
	return s
}

// build starts the nodes.
func (s *stage) build() error {
	for _, name := range []string{"node-a", "node-b"} {
		link, err := proxy.New(s.redis.addr)
		if err != nil {
			return err
		}
		s.links[name] = link
		n, err := startNode(s.redis.locks(link.Addr()), s.redis.tasks(), settings{
			name:     name,
			prefix:   s.redis.prefix(),
			queue:    s.redis.name,
			observer: newReporter(name, s.line, s.cues, s.totals),
			render:   s.witness.watch(name, press{s.shelf}.render),
		})
		if err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		s.nodes = append(s.nodes, n)
	}
	return nil
}

func (s *stage) introduce() {
	where := "embedded"
	if s.redis.inside == nil {
		where = "at " + s.redis.addr
	}
	c := s.nodes[0].keeper.Config()
	s.line.print(plain, "Two asynq servers render %d reports for %d users, of each user one at a "+
		"time. Redis: %s.",
		len(s.orders), len(users), where)
	s.line.print(plain, "A lock ends %s after its last heartbeat; one is due every %s.", ms(c.TTL),
		ms(c.Heartbeat))
	s.line.print(plain, "If none gets through, the task is told %s before that end.", ms(c.Margin))
	s.line.print(plain, "")
	s.line.print(bold, "    time  node    user  what happens")
}

// play is the story. It goes on by cues from what happens on the nodes.
func (s *stage) play(ctx context.Context) (err error) {
	s.line.say(plain, "", "", "%d reports are ordered", early)
	ctx, fail := context.WithCancelCause(ctx)
	ordered := make(chan struct{})
	go func() {
		defer close(ordered)
		if err := s.order(ctx, s.orders[:early]); err != nil {
			fail(err) // no cue will come
		}
	}()
	defer func() {
		fail(nil)
		<-ordered
	}()

	if s.cut, err = await(ctx, s.cues.held); err != nil {
		return err
	}
	if err := pause(ctx, cutAfter); err != nil {
		return err
	}
	s.line.say(bold+yellow, s.cut, "",
		"THE LINK between this node and the locks is CUT: nothing arrives, and nobody is told")
	s.links[s.cut].Blackhole(proxy.Both)
	if _, err = await(ctx, s.cues.gone); err != nil {
		return err
	}
	if s.saved, err = await(ctx, s.cues.taken); err != nil {
		return err
	}
	if err := pause(ctx, soon); err != nil {
		return err
	}
	s.links[s.cut].Heal()
	s.line.say(bold+yellow, s.cut, "", "the link is HEALED; %d more reports are ordered", late)
	if err := s.order(ctx, s.orders[early:]); err != nil {
		return err
	}
	_, err = await(ctx, s.witness.done)
	return err
}

// order enqueues reports, one after the other.
func (s *stage) order(ctx context.Context, reports []Report) error {
	for _, r := range reports {
		task, err := newTask(r)
		if err != nil {
			return err
		}
		if _, err := s.client.EnqueueContext(ctx, task, asynq.Queue(s.redis.name),
			asynq.TaskID(r.ID)); err != nil {
			return fmt.Errorf("order %s: %w", r.ID, err)
		}
		if err := pause(ctx, pace); err != nil {
			return err
		}
	}
	return nil
}

// strike ends all that was begun, collects the figures, and leaves the server as it was found.
func (s *stage) strike(f *figures) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, link := range s.links {
		link.Heal() // so that nobody waits
	}
	var faults []error
	for _, n := range s.nodes {
		faults = append(faults, n.stop(ctx))
	}
	s.witness.testify(f)
	f.user, f.savedAt = s.cues.user, s.cues.rescuedAt()
	f.cut, f.saved, f.stale = s.cut, s.saved, s.shelf.refused()
	s.totals.testify(f)
	f.took = s.line.took()
	inspector := asynq.NewInspector(s.redis.tasks())
	if queue, err := inspector.GetQueueInfo(s.redis.name); err == nil {
		f.archived, f.failed = queue.Archived, queue.Failed
	} else if !errors.Is(err, asynq.ErrQueueNotFound) { // nothing has been ordered
		faults = append(faults, fmt.Errorf("inspect the queue: %w", err))
	}
	var err error
	f.held, err = s.redis.held(ctx)
	faults = append(faults, err, s.redis.clean(ctx), inspector.Close(), s.client.Close())
	for _, link := range s.links {
		link.Close()
	}
	return errors.Join(faults...)
}
