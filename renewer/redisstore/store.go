package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/line"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/probe"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/records"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/subscription"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/tasks"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/view"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Store keeps locks in one Redis deployment. Its methods may be called concurrently.
type Store struct{ engine *engine }

// Engine is for renewer.New.
func (s *Store) Engine() store.Store { return s.engine }

// Close ends what the store has under way, and closes the client that [Open] has made, which waits
// for requests until their time-out. A client of your own stays open. Call it after
// renewer.Keeper.Shutdown; it may be called more than once.
func (s *Store) Close() { s.engine.Close() }

// engine asks the servers. A request passes through it one way, and its reply comes back:
//
//	store.go                      the verbs
//	codec.go, claims.go, holds.go requests as calls of the scripts; replies by reply.go
//	internal/schema               keys and values, which the server keeps
//	internal/wire                 how commands reach the servers, and whose answer is whose
//	internal/script               the scripts; the head of each says what goes in and comes out
//
// Waiting is beside that path. tell.lua, which other scripts include, says what the line, a place
// and a turn are on the server. internal/line has the places of this process, and hears, by the
// subscriber, when the turn of one has come.
//
// Beside that path are rooms that claim and hold nothing: internal/probe asks what the server can
// do, internal/view shows locks to people, internal/records keeps records and internal/tasks lines
// of tasks. internal/subscription, the process's subscription, and internal/topology, that of a
// cluster, know no lock.
type engine struct {
	*records.Records
	*tasks.Lines
	*view.View

	codec    *codec
	sender   *wire.Sender
	topology *topology.Topology // of a cluster; nil otherwise
	settle   time.Duration
	leastTTL time.Duration // 0 if unknown

	acquires  *wire.Coalescer[store.Claim, store.Grant]
	releases  *wire.Coalescer[store.Hold, store.Answer]
	acquiring wire.Windows
	releasing wire.Windows
	recording wire.Windows
	asker     *script.Asker // of what is no claim and no hold

	line       *line.Line
	subscriber *subscription.Subscriber

	server atomic.Pointer[string] // its run ID; nil if unknown, or of several
	life   context.Context        // ended by Close
	end    context.CancelFunc

	closeClient func()
}

var (
	_ contract.Sharded = (*engine)(nil)
	_ contract.Tuned   = (*engine)(nil)
	_ store.Recorder   = (*engine)(nil)
	_ store.Inspector  = (*engine)(nil)
	_ contract.Line    = (*engine)(nil)
)

// New returns a store on a client of your own, made with [ClientOption], which stays yours: close
// it after [Store.Close].
//
// It asks the server, for about 1 s at most, whether it may run what locks need. A server that
// refuses makes an error that says what to set or to grant; one that is down, loading or slow does
// not, and is asked again in the background. A nil client and options out of range make an error
// that is [renewer.ErrConfig] and names each.
func New(client rueidis.Client, opts ...Option) (*Store, error) {
	c, faults := configure(opts)
	if isNil(client) {
		faults = append(faults,
			"client: is nil; make one with rueidis.NewClient and check its error")
	}
	if err := faulty(faults); err != nil {
		return nil, err
	}
	return opened(start(context.Background(), client, c))
}

func opened(s *engine, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	return &Store{s}, nil
}

// start makes a store and asks the server, until ctx ends.
func start(ctx context.Context, client rueidis.Client, c settings) (*engine, error) {
	s := newStore(client, c)
	if c.toInspect {
		s.line.Enable() // what it breaks by force goes to the first in line
	}
	p := &probe.Prober{
		Client: client, Topology: s.topology, Errors: s.codec.errors, CanLine: s.line.Enable,
		IsServer: func(id string) { s.server.Store(&id) }, Log: c.log,
	}
	left, err := p.Ask(ctx)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	if len(left) > 0 {
		go p.Later(s.life, left, s.sender.Closed)
	}
	return s, nil
}

// newStore makes a store of its parts, and asks the server nothing.
func newStore(client rueidis.Client, c settings) *engine {
	s := &engine{settle: c.writeTimeout, leastTTL: c.leastTTL, closeClient: c.closeClient}
	if c.replicas > 0 { // an acquire waits for them in addition
		s.settle *= 2
	}
	s.life, s.end = context.WithCancel(context.Background())
	cluster := client.Mode() == rueidis.ClientModeCluster
	if cluster {
		s.topology = topology.New(s.life, client)
	}
	reader := &refusal.Reader{
		Prefix: c.prefix, Cluster: cluster, Replicas: c.replicas,
		ToInspect: c.toInspect, Astray: func() {}, Secrets: c.secrets,
	}
	watching := subscription.Config{
		Client: client, Topology: s.topology, Timeout: c.writeTimeout,
	}
	if !cluster { // a cluster's nodes say themselves where a slot is
		reader.Astray = func() { wire.HangUp(client) }
		watching.Try = func(ctx context.Context, conn rueidis.DedicatedClient) error {
			return probe.TryWrite(ctx, conn, reader)
		}
	}
	s.subscriber = subscription.New(watching)
	s.line = line.New(line.Config{
		Prefix: c.prefix, Cluster: cluster, Subscriber: s.subscriber, Check: s.checkTurn,
		Show: func(places []line.Shown) bool {
			return s.ShowFace(s.life, s.line.ID(), places)
		},
		Key: func(name contract.Name) string { return schema.LeaseKey(c.prefix, name) },
	})
	s.codec = newCodec(client, c, cluster, s.line, reader)
	s.sender = &wire.Sender{Client: client, Topology: s.topology, Refused: reader.Closed.Store}
	s.asker = &script.Asker{
		Prefix: c.prefix, Sender: s.sender, Through: &s.recording, Errors: reader,
	}
	s.View = view.New(c.prefix, s.sender, reader, s.settle)
	s.Records, s.Lines = records.New(s.asker), tasks.New(s.asker)
	s.acquires = newAcquires(s.codec, s.sender)
	s.releases = newReleases(s.codec, s.sender)
	s.setWindows()
	return s
}

// setWindows says how much may be under way.
func (s *engine) setWindows() {
	most := wire.MostUnderWay
	if s.codec.perCall == 1 {
		most = wire.MostAlone
	}
	s.acquiring.Most, s.releasing.Most, s.recording.Most = most, most, wire.MostAlone
}

// Acquire implements [store.Store].
func (s *engine) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	presents := false
	for i := range claims {
		if c := &claims[i]; c.Place != 0 && !samePlace(claims, i-1) {
			who := s.codec.faceText(c.Holder)
			presents = s.line.Present(contract.Claimed(c), c.Place, who) || presents
		}
	}
	begun := time.Now()
	var grants []store.Grant
	if s.codec.coalesces() && s.acquires.Joins(claims) {
		grants = s.acquires.DoThrough(ctx, s.acquiring.Of(0), claims)
	} else {
		job := s.codec.newClaiming(claims)
		s.sender.Spread(ctx, &s.acquiring, job)
		if s.codec.replicas > 0 {
			s.confirm(ctx, job, begun)
		}
		grants = job.grants
	}
	// Note how long the claim took: the place's turn will be as long.
	// An answer that did not come in time says nothing of how far away the server is.
	if (len(grants) == 1 || samePlace(claims, 0)) && (refused(&grants[0]) ||
		presents && grants[0].Status == store.StatusHeld) {
		s.line.Took(time.Since(begun))
	}
	if presents {
		s.answered(claims, grants)
	}
	return grants
}

// samePlace reports whether claim i and the next are of one place. If the later one is refused, the
// place stands in line, whatever became of the earlier one.
func samePlace(claims []store.Claim, i int) bool {
	return i >= 0 && i+1 < len(claims) && claims[i].Place != 0 &&
		claims[i].Place == claims[i+1].Place
}

// answered tells the line what became of claims. From then on it has the places that the server
// has in a line, or may have, and no others.
func (s *engine) answered(claims []store.Claim, grants []store.Grant) {
	for i := range claims {
		place, g := claims[i].Place, &grants[i]
		switch {
		case place == 0, samePlace(claims, i):
		case g.Status == store.StatusHeld:
			s.line.Leave(place)
		case refused(g):
			s.line.Refused(place, g.Status == store.StatusQueued)
		case g.Status != store.StatusUnknown, errors.Is(g.Err, store.ErrNotSent):
			s.line.Unranked(place)
		}
	}
}

func refused(g *store.Grant) bool {
	return g.Status == store.StatusTaken || g.Status == store.StatusQueued
}

// Renew implements [store.Store]. It passes through no window: a heartbeat waits for no crowd.
func (s *engine) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	job := s.codec.newRenewing(holds)
	s.sender.Spread(ctx, nil, job)
	return job.answers
}

// Release implements [store.Store].
func (s *engine) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	defer func() {
		for i := range holds {
			s.line.GiveUp(holds[i].Place)
		}
	}()
	for i := range holds { // lest the release overtake a claim that it undoes
		if err := s.acquires.Settle(ctx, holds[i].Owner); err != nil {
			err = s.codec.errors.Wrap("release", err)
			return slices.Repeat([]store.Answer{{Err: err}}, len(holds))
		}
	}
	if s.codec.coalesces() && s.releases.Joins(holds) {
		return s.releases.DoThrough(ctx, s.releasing.Of(0), holds)
	}
	job := s.codec.newReleasing(holds)
	s.sender.Spread(ctx, &s.releasing, job)
	return job.answers
}

// checkTurn has the server pass a lease on if it is a turn that has lapsed. It is the release of a
// lease that no owner has.
func (s *engine) checkTurn(name contract.Name) {
	ctx, cancel := context.WithTimeout(s.life, s.settle)
	defer cancel()
	hold := store.Hold{Name: name.Text, Limit: name.Limit, Owner: noOwner}
	s.sender.Spread(ctx, nil, s.codec.newReleasing([]store.Hold{hold}))
}

// noOwner is as long as an owner token, and none.
var noOwner = strings.Repeat(" ", store.OwnerLen)

// Watch implements [store.Store] by a subscription that all watches of the store share, on
// one connection of its own; of a cluster, one to each server that has a lock which is watched.
// It is opened when the first begins and given up some seconds after the last has stopped.
//
// A call of wake that has begun when stop is called may still run
// when stop returns. Both may be called from wake.
func (s *engine) Watch(name string, limit bool, wake func(error)) (stop func()) {
	return s.line.Watch(contract.Name{Text: name, Limit: limit}, wake)
}

// Close ends the subscription that [Store.Watch] uses, and what New still asks; watches hear of it
// by an error, once. It closes the client that [Open] has made, which waits for requests that are
// under way, until their time-out. A client of the caller's own stays open, and the other methods
// go on working. Close may be called more than once.
func (s *engine) Close() {
	s.end()
	s.line.Close()
	s.subscriber.Close()
	s.closeClient()
}

// Shard implements [contract.Sharded]: the primary of a cluster that serves name, as the
// cluster told last; 0 for all names if there is no cluster, or if it would not tell.
func (s *engine) Shard(name string) int {
	if s.topology == nil {
		return 0
	}
	return s.topology.Shard(schema.SlotOf(name))
}

// Settle returns what [WriteTimeout] was set to, and twice that with [Replicas], for which an
// acquire waits in addition: after that long the client has given up a connection that does not
// answer. A server that was frozen meanwhile may still find the request in its socket; then the
// lease lapses with its TTL.
func (s *engine) Settle() time.Duration { return s.settle }

// LeastTTL returns the TTL that [Open] was told, and 0 for a store of [New].
func (s *engine) LeastTTL() time.Duration { return s.leastTTL }

// Server returns which server [New] found: its run ID, by which package quorum refuses to be given
// one server twice, under whatever addresses. It is "" for a cluster, where the server does not let
// us see it (+info), and as long as it has not answered.
func (s *engine) Server() string {
	if id := s.server.Load(); id != nil {
		return *id
	}
	return ""
}
