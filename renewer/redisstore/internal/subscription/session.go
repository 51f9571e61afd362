package subscription

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// maxChannels bounds one SUBSCRIBE, and how many are sent at once, so that a
// request stays small.
const maxChannels = 100

// beliefCheck is how often a session looks whether the client still takes its
// server for the primary, which costs no request: after a fail-over in which
// the former primary can still be reached, nothing else ends the connection to
// it, and releases are published on the new one.
const beliefCheck = 500 * time.Millisecond

var (
	errEnded    = errors.New("the connection has ended")
	errNoServer = errors.New("no server of the cluster is known to have the lock's slot")
)

// session is one connection to a server, from dialling to its end.
type session struct {
	config *Config
	server *server
	place  string // the server's address of its loop; "" without a cluster
	conn   rueidis.DedicatedClient
	addr   string // of the connection's server, as the client names it; "" if that is not known
	link   *link
	// sharded is whether to subscribe by SSUBSCRIBE: messages stay in the
	// shard.
	sharded bool
	asked   time.Time // when the server was last asked where its channels have gone
}

// serve opens one connection and uses it until it fails; or until nothing has
// been watched for a while, or its server is not the primary any more, which
// are no errors. It reports whether the server confirmed anything.
func serve(ctx context.Context, config *Config, to *server, place string) (live bool, err error) {
	s := &session{
		config: config, server: to, place: place, sharded: config.Topology != nil,
		link: &link{subscribed: make(map[string]struct{})},
	}
	if err = s.dial(); err != nil {
		return false, fmt.Errorf("redisstore: watch: %w", err)
	}
	defer s.conn.Close() // rather than into the client's pool, where it would stay open unused
	if err = s.try(ctx); err != nil {
		return false, fmt.Errorf("redisstore: watch: %w", err)
	}
	to.connect(s.link)
	// They run on the connection's reading goroutine.
	over := s.conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			tellAll(to.heard(s.link, m.Channel, false), m.Message)
		},
		OnSubscription: func(e rueidis.PubSubSubscription) {
			switch e.Kind {
			case "subscribe", "ssubscribe":
				tellAll(to.heard(s.link, e.Channel, true), "")
			case "sunsubscribe":
				to.withdraw(s.link, e.Channel)
			}
		},
	})
	if err = s.follow(ctx, over); err != nil {
		err = fmt.Errorf("redisstore: watch: %w", err)
	}
	return to.disconnect(s.link), err
}

// dial opens the connection. It takes no context, since Dedicate takes none: it
// dials for as long as Dialer.Timeout says. No caller waits for this goroutine.
func (s *session) dial() error {
	client := s.config.Client
	if s.config.Topology != nil {
		s.addr = s.place
		if client = client.Nodes()[s.addr]; client == nil {
			return errNoServer
		}
	} else if now, node := s.primary(); node != nil {
		// So it is the connection's server even if the client turns to another
		// one meanwhile.
		s.addr, client = now, node
	}
	s.conn, _ = client.Dedicate() // Close gives it back too
	return nil
}

// try has the connection looked at, before the server is asked for anything
// else.
func (s *session) try(ctx context.Context) error {
	if s.config.Try == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	return s.config.Try(ctx, s.conn)
}

// primary is the one server that the client has, without a cluster, and a
// client of that; nil if it has several, of which its own Dedicate knows the
// primary.
func (s *session) primary() (addr string, node rueidis.Client) {
	nodes := s.config.Client.Nodes()
	if len(nodes) != 1 {
		return "", nil
	}
	for addr, node := range nodes {
		return addr, node
	}
	return "", nil
}

// outdated reports whether the client takes another server for the primary by
// now.
func (s *session) outdated() bool {
	now, _ := s.primary()
	return s.addr != "" && now != "" && now != s.addr
}

// follow does on the connection what watches ask for, as they come and go.
func (s *session) follow(ctx context.Context, over <-chan error) error {
	idle := time.NewTimer(linger)
	defer idle.Stop()
	var check <-chan time.Time
	if s.config.Topology == nil { // the loops of a cluster follow its topology
		ticker := time.NewTicker(beliefCheck)
		defer ticker.Stop()
		check = ticker.C
	}
	for {
		if s.config.Topology != nil && s.server.astray() {
			s.ask(ctx)
		}
		if enough, err := s.update(ctx); enough || err != nil {
			return err // the next session begins at once, and wakes all
		}
		if s.server.idle() {
			idle.Reset(linger)
		} else {
			idle.Stop()
		}
		if ended, err := s.pause(ctx, idle.C, check, over); ended {
			return err
		}
	}
}

// ask asks the server where its channels have gone, which it knows best: but
// not without a pause, as servers that disagree send us to and fro.
func (s *session) ask(ctx context.Context) {
	pause := time.NewTimer(minPause - time.Since(s.asked))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	s.config.Topology.LearnFrom(ctx, s.place)
	s.asked = time.Now()
}

// pause returns when there is something new to look at, or reports that the
// session has ended, and why.
func (s *session) pause(
	ctx context.Context, idle, check <-chan time.Time, over <-chan error,
) (ended bool, err error) {
	for {
		select {
		case <-s.server.kick:
			return false, nil
		case <-check:
			if s.outdated() {
				return true, nil // the next session begins at once, and wakes all
			}
		case <-idle:
			return true, nil
		case <-ctx.Done():
			return true, ctx.Err()
		case err := <-over:
			if err == nil {
				err = errEnded
			}
			return true, err
		}
	}
}

// update subscribes to the channels that came, and wakes the watches that came
// to one that was there already. It reports whether the connection has too much
// that is not wanted any more: that ends with the connection, and never by
// UNSUBSCRIBE. The client sends PING behind that, and ends the process at an
// answer to it that it does not know, such as -MISCONF while a disk is full.
func (s *session) update(ctx context.Context) (enough bool, err error) {
	come, unwoken, enough := s.server.changes(s.link)
	if enough {
		return true, nil
	}
	for part := range slices.Chunk(come, maxChannels) {
		if err := s.subscribe(ctx, part); err != nil {
			return false, err
		}
	}
	tellAll(unwoken, "")
	return false, nil
}

// subscribe asks for messages that stay in the shard where the server knows
// such (Redis 7), and else for those that all servers of the cluster are sent.
func (s *session) subscribe(ctx context.Context, channels []string) error {
	if s.sharded {
		// One at a time: channels of one command must share a slot.
		err := s.send(ctx, channels, func(c string) rueidis.Completed {
			return s.conn.B().Ssubscribe().Channel(c).Build()
		}, func(channel string) { s.server.withdraw(s.link, channel) })
		if answer, ok := rueidis.IsRedisErr(err); !ok ||
			!strings.Contains(answer.Error(), "unknown command") {
			return err
		}
		s.sharded = false
	}
	return s.send(ctx, channels[:1], func(string) rueidis.Completed {
		return s.conn.B().Subscribe().Channel(channels...).Build()
	}, nil)
}

// send sends a command for each channel and returns the first error, except
// that moved is called with the channels that the server does not serve any
// more.
func (s *session) send(
	ctx context.Context, channels []string,
	build func(channel string) rueidis.Completed, moved func(channel string),
) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	commands := make([]rueidis.Completed, len(channels))
	for i, c := range channels {
		commands[i] = build(c)
	}
	var first error
	for i, r := range s.conn.DoMulti(ctx, commands...) {
		err := r.Error()
		if answer, ok := rueidis.IsRedisErr(err); ok && moved != nil {
			if _, ok := answer.IsMoved(); ok {
				moved(channels[i])
				continue
			}
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// channel is a channel that is watched, or was a moment ago.
type channel struct {
	addr    string      // of the server that it is subscribed to on; see Subscriber.servers
	watches []*watch    // replaced, never changed, so that it can be walked without the mutex
	live    bool        // the server has confirmed the subscription on the present connection
	heard   int         // messages for this process, and confirmations
	marked  int         // heard at the last Subscriber.Mark
	lingers *time.Timer // has it forgotten; nil while there are watches
}

// add adds a watch, and reports whether it may have missed a message, so that
// it must be woken. Before the subscription is live it can't have: its
// confirmation will wake it.
func (c *channel) add(w *watch) (missed bool) {
	if c.lingers != nil {
		c.lingers.Stop()
		c.lingers = nil
	}
	c.watches = append(slices.Clone(c.watches), w)
	return c.live && c.marked != c.heard
}

// remove removes a watch, and reports whether it was the last.
func (c *channel) remove(w *watch) (last bool) {
	c.watches = slices.DeleteFunc(slices.Clone(c.watches), func(o *watch) bool { return o == w })
	return len(c.watches) == 0
}

// watch is one caller who wants to be woken.
type watch struct {
	hear    func(message string, err error)
	stopped atomic.Bool
	told    atomic.Bool // has heard an error since its last wake-up, and needs no second
}

func (w *watch) call(message string, err error) {
	if w.stopped.Load() {
		return
	}
	if w.told.Swap(err != nil) && err != nil {
		return
	}
	w.hear(message, err)
}

// tellAll has watches hear a message, or "" if they may have missed one.
func tellAll(watches []*watch, message string) {
	for _, w := range watches {
		w.call(message, nil)
	}
}

// Between these the pause before a new connection doubles.
const (
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
)

// loop keeps a subscription to one server for as long as anything is watched
// there. It is the only one who opens connections to it.
type loop struct {
	config *Config
	server *server
	addr   string      // of the server; "" without a cluster, or when it is not known
	ended  func() bool // reports whether nothing is watched any more, so that the loop may end
}

func (l *loop) run(ctx context.Context) {
	pause := minPause
	for {
		live, err := serve(ctx, l.config, l.server, l.addr)
		if ctx.Err() != nil {
			err = ErrClosed
		}
		if err != nil {
			for _, w := range l.server.watches() {
				w.call("", err)
			}
		}
		if err != nil && ctx.Err() == nil && l.config.Topology != nil {
			l.config.Topology.Learn(ctx) // the server may have lost its slots, also by failing
		}
		if l.ended() {
			return
		}
		if err == nil {
			// It was idle, but for a watch that has just begun; or its server
			// is not the primary any more.
			continue
		}
		if live {
			pause = minPause
		}
		// Jitter, lest all processes come back to a restarted server at once.
		l.wait(ctx, pause/2+rand.N(pause/2+1))
		pause = min(2*pause, maxPause)
	}
}

// wait returns after d, or when there is nothing left to wait for.
func (l *loop) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-l.server.kick:
			if l.server.idle() {
				return
			}
		}
	}
}
