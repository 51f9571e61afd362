package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// maxChannels bounds one SUBSCRIBE, and how many are sent at once, so that a request stays small.
const maxChannels = 100

var (
	errEnded    = errors.New("the connection has ended")
	errNoServer = errors.New("no server of the cluster is known to have the lock's slot")
)

// beliefCheck is how often a session looks whether the client still takes its server for the
// primary, which costs no request: after a fail-over in which the former primary can still be
// reached, nothing else ends the connection to it, and releases are published on the new one.
const beliefCheck = 500 * time.Millisecond

// session is one connection of a line, from dialling to its end. It
// is the goroutine's own, but for live.
type session struct {
	addr       string              // of the server, as the client names it; "" if that is not known
	subscribed map[string]struct{} // channels asked for
	sharded    bool                // by SSUBSCRIBE: messages stay in the shard
	live       bool                // something was confirmed; guarded by hub.mu
}

// serve opens one connection and uses it until it fails, or nothing has been watched for a while,
// or its server is not the primary any more, which are no errors. It reports whether the server
// confirmed anything.
func (l *line) serve(ctx context.Context) (live bool, err error) {
	conn, addr, err := l.dedicate()
	if err != nil {
		return false, fmt.Errorf("redisstore: watch: %w", err)
	}
	defer conn.Close() // rather than into the client's pool, where it would stay open unused
	s := &session{addr: addr, subscribed: make(map[string]struct{}), sharded: l.hub.topology != nil}
	l.begin(s)
	over := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { l.dispatch(s, m.Channel, m.Message, false) },
		OnSubscription: func(e rueidis.PubSubSubscription) {
			switch e.Kind {
			case "subscribe", "ssubscribe":
				l.dispatch(s, e.Channel, "", true)
			case "sunsubscribe":
				l.withdraw(s, e.Channel)
			}
		},
	})
	if err = l.follow(ctx, conn, s, over); err != nil {
		err = fmt.Errorf("redisstore: watch: %w", err)
	}
	return l.end(s), err
}

// dedicate opens a connection to the line's server. Dedicate takes no context:
// it dials for as long as Dialer.Timeout says. Nobody waits for this goroutine.
func (l *line) dedicate() (conn rueidis.DedicatedClient, addr string, err error) {
	client := l.hub.client
	if l.hub.topology != nil {
		addr = l.addr
		if client = client.Nodes()[addr]; client == nil {
			return nil, "", errNoServer
		}
	} else if now, node := l.hub.primary(); node != nil {
		// so that it is the connection's, even if the client turns to another server meanwhile
		addr, client = now, node
	}
	conn, _ = client.Dedicate() // Close gives it back too
	return conn, addr, nil
}

// primary is the one server that the client has, without a cluster, and a client of that; nil if it
// has several, of which its own Dedicate knows the primary.
func (h *hub) primary() (addr string, node rueidis.Client) {
	nodes := h.client.Nodes()
	if len(nodes) != 1 {
		return "", nil
	}
	for addr, node := range nodes {
		return addr, node
	}
	return "", nil
}

// outdated reports whether the client takes another server for the primary by now.
func (l *line) outdated(s *session) bool {
	now, _ := l.hub.primary()
	return s.addr != "" && now != "" && now != s.addr
}

// follow does on the connection what watches ask for, as they come and go.
func (l *line) follow(
	ctx context.Context, conn rueidis.DedicatedClient, s *session, over <-chan error,
) error {
	idle := time.NewTimer(linger)
	defer idle.Stop()
	var look <-chan time.Time
	if l.hub.topology == nil { // a cluster's lines follow its topology
		ticker := time.NewTicker(beliefCheck)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		if l.astray() { // the server itself knows best where to
			l.hub.topology.LearnFrom(ctx, l.addr)
		}
		if err := l.update(ctx, conn, s); err != nil {
			return err
		}
		if l.idle() {
			idle.Reset(linger)
		} else {
			idle.Stop()
		}
		if ended, err := l.pause(ctx, s, idle.C, look, over); ended {
			return err
		}
	}
}

// pause returns when there is something new to look at, or reports that the session has ended, and
// why.
func (l *line) pause(
	ctx context.Context, s *session, idle, look <-chan time.Time, over <-chan error,
) (ended bool, err error) {
	for {
		select {
		case <-l.kick:
			return false, nil
		case <-look:
			if l.outdated(s) {
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

// update subscribes to what came, gives up what went, and wakes those
// who came to what was there already.
func (l *line) update(ctx context.Context, conn rueidis.DedicatedClient, s *session) error {
	come, gone, fresh := l.changes(s)
	for part := range slices.Chunk(come, maxChannels) {
		if err := l.subscribe(ctx, conn, s, part); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(gone, maxChannels) {
		if err := l.unsubscribe(ctx, conn, s, part); err != nil {
			return err
		}
	}
	for _, w := range fresh {
		w.call(nil)
	}
	return nil
}

// subscribe asks for messages that stay in the shard where the server knows
// such (Redis 7), and else for those that all servers of the cluster are sent.
func (l *line) subscribe(
	ctx context.Context, conn rueidis.DedicatedClient, s *session, channels []string,
) error {
	if s.sharded {
		// One at a time: channels of one command must share a slot.
		err := l.send(ctx, conn, channels, func(c string) rueidis.Completed {
			return conn.B().Ssubscribe().Channel(c).Build()
		},
			func(channel string) { l.withdraw(s, channel) })
		if answer, ok := rueidis.IsRedisErr(err); !ok ||
			!strings.Contains(answer.Error(), "unknown command") {
			return err
		}
		s.sharded = false
	}
	return l.send(ctx, conn, channels[:1], func(string) rueidis.Completed {
		return conn.B().Subscribe().Channel(channels...).Build()
	}, nil)
}

func (l *line) unsubscribe(
	ctx context.Context, conn rueidis.DedicatedClient, s *session, channels []string,
) error {
	if s.sharded {
		return l.send(ctx, conn, channels, func(c string) rueidis.Completed {
			return conn.B().Sunsubscribe().Channel(c).Build()
		},
			func(string) {}) // the subscription has ended with the slot's move
	}
	return l.send(ctx, conn, channels[:1], func(string) rueidis.Completed {
		return conn.B().Unsubscribe().Channel(channels...).Build()
	}, nil)
}

// send sends a command for each channel and returns the first error, except
// that moved is told of channels that the server does not serve any more.
func (l *line) send(
	ctx context.Context, conn rueidis.DedicatedClient, channels []string,
	build func(channel string) rueidis.Completed, moved func(channel string),
) error {
	ctx, cancel := context.WithTimeout(ctx, l.hub.timeout)
	defer cancel()
	commands := make([]rueidis.Completed, len(channels))
	for i, c := range channels {
		commands[i] = build(c)
	}
	var first error
	for i, r := range conn.DoMulti(ctx, commands...) {
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
