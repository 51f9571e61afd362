// Gateway runs three replicas of an HTTP gateway, each a process of its own,
// before a model server that streams server-sent events and bears three streams
// a user and twenty in all. Clients hang up, Redis goes away, a replica is
// killed; the model server counts what runs at once.
//
//	go run ./examples/gateway                          # Redis runs inside the program
//	go run ./examples/gateway -redis localhost:6379    # on your own, left as it was found
//
// The exit status is 1 if anything that it claims did not hold.
//
// Read app.go first: it is what you would write. upstream.go is the model
// server, clients.go has the clients, and main.go says what happens to them.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

const (
	replicas = 3
	users    = 9 // each wants four streams at once
)

func main() {
	demo.Child(runReplica)
	demo.Main(demo.Setting{Program: "gateway"}, tell)
}

type story struct {
	*demo.Demo

	upstream *upstream
	nodes    *demo.Nodes
	clients  clients
	hangUp   func() // has those hang up who came since the first ones did
	phase    string
}

func tell(ctx context.Context, d *demo.Demo) error {
	s := &story{Demo: d, upstream: newUpstream()}
	if err := s.start(ctx); err != nil {
		return err
	}
	d.Print("%d replicas of a gateway before a model server that bears %d streams a user and %d "+
		"in all. Redis: %s.", replicas, ofUser, inAll, d.Where())
	for _, phase := range []struct {
		name string
		play func(context.Context) error
	}{
		{"load", s.load},
		{"hang-ups", s.hangUps},
		{"outage", s.outage},
		{"kill -9", s.kill},
		{"calm", s.calm},
	} {
		s.phase = phase.name
		d.Event("", "%s", phase.name)
		s.upstream.phase()
		if err := phase.play(ctx); err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
		_, all, _ := s.upstream.look("all")
		_, user, _ := s.upstream.look("user:")
		d.Claim(phase.name+": most streams at once, and of a user",
			all <= inAll && user <= ofUser, "%d of %d, %d of %d", all, inAll, user, ofUser)
	}
	return nil
}

// start starts the model server, here, and the replicas.
func (s *story) start(ctx context.Context) error {
	server := newServer(s.upstream.routes())
	addr, err := s.Serve(server.Serve, server.Shutdown)
	if err != nil {
		return err
	}
	if s.nodes, err = s.NewNodes(); err != nil {
		return err
	}
	for i := range replicas {
		name := fmt.Sprint("gateway-", i+1)
		if err := s.nodes.Start(ctx, name, demo.TTL, "http://"+addr); err != nil {
			return err
		}
		listens, err := demo.Wait(ctx, s.nodes.Words)
		if err != nil {
			return err
		}
		s.clients = append(s.clients, listens.Note)
	}
	return nil
}

// load is users who want more than they may have.
func (s *story) load(ctx context.Context) error {
	wait, _ := s.clients.crowd(ctx, "early", short)
	wait()
	return ctx.Err()
}

// hangUps is clients who hang up in the middle of their streams, while others
// wait.
func (s *story) hangUps(ctx context.Context) error {
	_, hangUp := s.clients.crowd(ctx, "first", endless)
	if err := s.full(ctx); err != nil {
		return err
	}
	_, s.hangUp = s.clients.crowd(ctx, "then", endless)
	hangUp()
	if err := s.upstream.await(ctx, "user:first", 0, 0); err != nil {
		return err
	}
	return s.full(ctx)
}

// full waits until as many streams run as may. Redis must count as many slots.
func (s *story) full(ctx context.Context) error {
	if err := s.upstream.await(ctx, "all", inAll, 4*users); err != nil {
		return err
	}
	redis, key := s.Servers[0].Direct, s.Prefix("")+"{all}:slots"
	slots, err := redis.Do(ctx, redis.B().Zcard().Key(key).Build()).AsInt64()
	now, _, _ := s.upstream.look("all")
	s.Claim(s.phase+": slots in Redis, and streams", slots == int64(now), "%d, %d", slots, now)
	return err
}

// outage cuts Redis off for longer than a fail-over takes. Streams run on while
// their slots are good, new ones are refused, and each replica admits its share
// of urgent ones.
func (s *story) outage(ctx context.Context) error {
	s.Stop(1)
	urgently, hangUp := context.WithCancel(ctx)
	defer hangUp()
	const shares = replicas * share
	refused := s.clients.refused(urgently, "/urgent", 2*shares, shares)
	if err := s.upstream.await(ctx, "urgent", shares, 2*shares); err != nil {
		return err
	}
	_, most, _ := s.upstream.look("urgent")
	s.Claim("outage: urgent streams of a replica, by LocalShare; 503",
		most == share && refused == shares, "%d of %d; %d of %d", most, share, refused, shares)
	hangUp()
	refused = s.clients.refused(ctx, "/chat/new", replicas, replicas)
	now, _, _ := s.upstream.look("all") // more than a TTL later
	s.Claim("outage: new streams: 503; streams whose slots have lapsed",
		refused == replicas && now == 0, "%d of %d; %d", refused, replicas, now)
	s.Resume()
	return s.full(ctx)
}

// kill is a replica that dies. Its streams end at once, and their slots when
// they lapse.
func (s *story) kill(ctx context.Context) error {
	const dead = "gateway-1"
	had, _, _ := s.upstream.look(dead)
	killed := time.Now()
	s.nodes.Kill(dead)
	if err := s.upstream.await(ctx, dead, 0, 0); err != nil {
		return err
	}
	err := s.full(ctx)
	took := time.Since(killed)
	// A TTL on a machine that is not busy; one that leaks slots would never get
	// there.
	s.Claim("kill -9: slots of the dead in other hands after a TTL, "+demo.TTL.String(),
		err == nil, "%d after %s", had, demo.Span(took))
	return err
}

// calm is when all have hung up. That no slot is left in Redis is claimed
// behind it.
func (s *story) calm(ctx context.Context) error {
	s.hangUp()
	return s.upstream.await(ctx, "all", 0, 0)
}
