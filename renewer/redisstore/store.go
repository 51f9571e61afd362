package redisstore

import (
	"context"
	"reflect"
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

// Store keeps locks in one Redis deployment. Its methods may be called
// concurrently.
type Store struct{ engine *engine }

// Engine is for renewer.New.
func (s *Store) Engine() store.Store { return s.engine }

// Close ends what the store has under way, and closes the client that [Open]
// has made, which waits for requests until their time-out. A client of your own
// stays open. Call it after renewer.Keeper.Shutdown; it may be called more than
// once.
func (s *Store) Close() { s.engine.Close() }

// engine asks the servers. A request passes through it one way, and its reply
// comes back:
//
//	claims.go, holds.go  the verbs, and their requests as calls of scripts
//	codec.go             what all requests say, and what is believed of replies
//	internal/schema      keys and values, which the server keeps
//	internal/script      the scripts; the head of each says what goes in and comes out
//	internal/wire        how commands reach the servers, and whose answer is whose
//
// Waiting is beside that path. tell.lua, which other scripts include, says what
// the line and a place are on the server. internal/line has the places of this
// process, and hears, by the subscriber, that the claim of one was granted,
// which answers its next claim.
//
// Beside that path are rooms that claim and hold nothing: internal/probe asks
// what the server can do, internal/view shows locks to people, internal/records
// keeps records and internal/tasks lines of tasks. internal/subscription, the
// process's subscription, and internal/topology, that of a cluster, know no
// lock.
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
	_ contract.Sharded  = (*engine)(nil)
	_ contract.Tuned    = (*engine)(nil)
	_ contract.Proposer = (*engine)(nil)
	_ contract.Replacer = (*engine)(nil)
	_ contract.Line     = (*engine)(nil)
	_ store.Recorder    = (*engine)(nil)
	_ store.Inspector   = (*engine)(nil)
)

// New returns a store on a client of your own, made with [ClientOption], which
// stays yours: close it after [Store.Close].
//
// It asks the server, for about 1 s at most, whether it may run what locks
// need. A server that refuses makes an error that says what to set or to grant;
// one that is down, loading or slow does not, and is asked again in the
// background. A nil client and options out of range make an error that is
// [renewer.ErrConfig] and names each.
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

// isNil also finds the nil of a concrete client inside an interface that is not
// nil.
func isNil(client rueidis.Client) bool {
	if client == nil {
		return true
	}
	v := reflect.ValueOf(client)
	return v.Kind() == reflect.Pointer && v.IsNil()
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

// Watch implements [store.Store] by a subscription that all watches of the
// store share, on one connection of its own; of a cluster, one to each server
// that has a lock which is watched. It is opened when the first begins and
// given up some seconds after the last has stopped.
//
// A call of wake that has begun when stop is called may still run
// when stop returns. Both may be called from wake.
func (s *engine) Watch(name string, limit bool, wake func(error)) (stop func()) {
	return s.line.Watch(contract.Name{Text: name, Limit: limit}, wake)
}

// Close ends the subscription that [Store.Watch] uses, and what New still asks;
// watches hear of it by an error, once. It closes the client that [Open] has
// made, which waits for requests that are under way, until their time-out. A
// client of the caller's own stays open, and the other methods go on working.
// Close may be called more than once.
func (s *engine) Close() {
	s.end()
	s.line.Close()
	s.subscriber.Close()
	s.closeClient()
}

// Shard implements [contract.Sharded]: the primary of a cluster that serves
// name, as the cluster told last; 0 for all names if there is no cluster, or if
// it would not tell.
func (s *engine) Shard(name string) int {
	if s.topology == nil {
		return 0
	}
	return s.topology.Shard(schema.SlotOf(name))
}

// Settle returns what [WriteTimeout] was set to, and twice that with
// [Replicas], for which an acquire waits in addition: after that long the
// client has given up a connection that does not answer. A server that was
// frozen meanwhile may still find the request in its socket; then the lease
// lapses with its TTL.
func (s *engine) Settle() time.Duration { return s.settle }

// LeastTTL returns the TTL that [Open] was told, and 0 for a store of [New].
func (s *engine) LeastTTL() time.Duration { return s.leastTTL }

// Server returns which server [New] found: its run ID, by which package quorum
// refuses to be given one server twice, under whatever addresses. It is "" for
// a cluster, where the server does not let us see it (+info), and as long as it
// has not answered.
func (s *engine) Server() string {
	if id := s.server.Load(); id != nil {
		return *id
	}
	return ""
}
