package redisstore

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/subscription"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
)

// Store keeps locks in one Redis deployment. Its methods may be called concurrently.
type Store struct {
	client    rueidis.Client
	prefix    string
	fenceTTL  time.Duration
	fenceText string // fenceTTL in ms
	settle    time.Duration
	cluster   bool
	topology  *topology.Topology // of a cluster; nil otherwise
	perCall   int                // keys of one script
	replicas  int                // that must confirm a grant
	// whether waiters stand in line on the server; once true, always
	lines     atomic.Bool
	server    atomic.Pointer[string] // its run ID; nil if unknown, or of several
	dead      atomic.Bool            // whether the client was closed when it last refused a request
	life      context.Context        // ended by Close
	end       context.CancelFunc
	lineArgs  []string // of release.lua
	abandoned abandoned
	acquires  *gather[renewer.Claim, renewer.Grant]
	releases  *gather[renewer.Hold, renewer.Answer]
	acquiring windows
	releasing windows
	recording windows
	// watches are told by the subscriber; it asks waiters whom a message is for
	subscriber *subscription.Subscriber
	waiters    waiterSet
	ttls       memo[time.Duration]
	holders    memo[renewer.Holder]
}

var _ renewer.Sharded = (*Store)(nil)

// New returns a store on the caller's client, which stays the
// caller's: close it after [Store.Close].
//
// It asks the server, for about 1 s at most, whether it may run what locks need. A server that
// refuses makes an error that says what to set or to grant; one that is down, loading or slow does
// not, since locks taken later wait for it: what it has not answered it is asked again in the
// background, with pauses, until it has, the client is closed, or Close is called. A nil client and
// options out of range make an error that is [renewer.ErrConfig] and names each.
func New(client rueidis.Client, opts ...Option) (*Store, error) {
	c, err := configure(client, opts)
	if err != nil {
		return nil, err
	}
	s := &Store{
		client: client, prefix: c.prefix,
		fenceTTL: c.fenceTTL, fenceText: decimal(c.fenceTTL.Milliseconds()),
		settle:  c.writeTimeout,
		cluster: client.Mode() == rueidis.ClientModeCluster,
		perCall: maxKeys, replicas: c.replicas,
		ttls: memo[time.Duration]{make: func(d time.Duration) string {
			return decimal(d.Milliseconds())
		}},
		holders: memo[renewer.Holder]{make: encodeHolder},
	}
	s.life, s.end = context.WithCancel(context.Background())
	if s.cluster {
		// A script's keys must share a slot there. Locks that happen to do so are few,
		// and a script with several of them could not run while the slot is moving.
		s.perCall = 1
		s.topology = topology.New(s.life, client)
	}
	s.acquires, s.releases = s.newAcquires(), s.newReleases()
	s.setWindows()
	s.lineArgs = []string{withLines, s.fenceText, decimal(turnTime.Milliseconds())}
	s.subscriber = subscription.New(subscription.Config{
		Client: client, Topology: s.topology, Timeout: c.writeTimeout,
		Audience: s.waiters.audience, Later: turnTime,
	})
	ctx, cancel := context.WithTimeout(s.life, probeTimeout)
	defer cancel()
	if s.cluster {
		// First: the server that the probe asks may be the one that does not answer.
		s.topology.Learn(ctx)
	}
	left, err := ask(ctx, s.questions(c.logger))
	if err != nil {
		s.Close()
		return nil, err
	}
	if len(left) > 0 {
		go s.askLater(left, c.logger)
	}
	return s, nil
}

// setWindows says how much may be under way.
func (s *Store) setWindows() {
	most := mostUnderWay
	if s.perCall == 1 {
		most = mostAlone
	}
	s.acquiring.most, s.releasing.most, s.recording.most = most, most, mostAlone
}

// Server returns which server [New] found: its run ID, by which package quorum refuses to be given
// one server twice, under whatever addresses. It is "" for a cluster, where the server does not let
// us see it (+info), and as long as it has not answered.
func (s *Store) Server() string {
	if id := s.server.Load(); id != nil {
		return *id
	}
	return ""
}

// Key returns the key of the lease on a lock's name, for a look at it from
// outside: redis-cli --raw GET KEY shows who has it. Its fence counter is
// at the same key with ":fence" behind it. Do not write to them.
func (s *Store) Key(name string) string { return leaseKey(s.prefix, name) }

// Settle returns what [WriteTimeout] was set to: after that long the client has
// given up a connection that does not answer. A server that was frozen meanwhile
// may still find the request in its socket; then the lease lapses with its TTL.
func (s *Store) Settle() time.Duration { return s.settle }

// Watch implements [renewer.Store] by a subscription that all watches of the store share, on
// one connection of its own; of a cluster, one to each server that has a lock which is watched.
// It is opened when the first begins and given up about a second after the last has stopped.
//
// A call of wake that has begun when stop is called may still run
// when stop returns. Both may be called from wake.
func (s *Store) Watch(name string, wake func(error)) (stop func()) {
	return s.subscriber.Watch(freedChannel(s.prefix, name), wake)
}

// Close ends the subscription that [Store.Watch] uses, and what New still asks; watches hear of it
// by an error, once. The other methods go on working: the client stays the caller's. Close may be
// called more than once, and does not wait.
func (s *Store) Close() {
	s.end()
	s.subscriber.Close()
}

// Shard implements [renewer.Sharded]: the primary of a cluster that serves name, as the
// cluster told last; 0 for all names if there is no cluster, or if it would not tell.
func (s *Store) Shard(name string) int {
	if s.topology == nil {
		return 0
	}
	return s.topology.Shard(slotOf(name))
}

// Acquire implements [renewer.Store].
func (s *Store) Acquire(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
	if s.lines.Load() {
		s.standInLine(claims)
	}
	var grants []renewer.Grant
	switch {
	case len(claims) == 1 && s.gathers() && s.plain(&claims[0]):
		grants = s.acquires.doThrough(ctx, s.acquiring.of(0), claims)
	case s.replicas > 0:
		job := s.newClaiming(claims)
		s.confirmed(ctx, job)
		grants = job.grants
	default:
		job := s.newClaiming(claims)
		s.spread(ctx, &s.acquiring, job)
		grants = job.grants
	}
	if s.lines.Load() {
		s.waiters.settle(claims, grants)
	}
	return grants
}

// standInLine notes claims that are about to be sent, for names that others of this process are known
// to want: they ask for a place in the line at once.
func (s *Store) standInLine(claims []renewer.Claim) {
	if !s.subscriber.Watching() {
		return
	}
	for i := range claims {
		if claims[i].Queue && s.subscriber.Mark(freedChannel(s.prefix, claims[i].Name)) {
			s.waiters.add(claims[i].Owner)
		}
	}
}

// Renew implements [renewer.Store].
func (s *Store) Renew(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	job := s.newHolding("renew", &renewScript, holds, func(h *renewer.Hold) time.Duration {
		return h.TTL
	})
	if s.cluster {
		job.last = shardArgs
	}
	s.spread(ctx, nil, job)
	return job.answers
}

// Release implements [renewer.Store].
func (s *Store) Release(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
	if s.lines.Load() {
		s.waiters.leave(holds)
	}
	for i := range holds {
		if err := s.abandoned.settle(ctx, holds[i].Owner); err != nil {
			return slices.Repeat([]renewer.Answer{{Err: s.wrap("release", err)}}, len(holds))
		}
	}
	if len(holds) == 1 && s.gathers() {
		return s.releases.doThrough(ctx, s.releasing.of(0), holds)
	}
	job := s.newReleasing(holds)
	s.spread(ctx, &s.releasing, job)
	return job.answers
}

func (s *Store) newReleasing(holds []renewer.Hold) *holding {
	job := s.newHolding("release", &releaseScript, holds, func(h *renewer.Hold) time.Duration {
		return h.Keep
	})
	switch {
	case s.cluster:
		job.last = shardArgs
	case s.lines.Load():
		job.last = s.lineArgs
	}
	return job
}

// gathers tells whether callers who meet share a command: not on a cluster, where their locks
// are in different slots, and not where replicas confirm each grant on a connection of its own.
func (s *Store) gathers() bool { return s.perCall > 1 && s.replicas == 0 }

func (s *Store) newAcquires() *gather[renewer.Claim, renewer.Grant] {
	return &gather[renewer.Claim, renewer.Grant]{
		alike: s.alike,
		alone: func(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
			job := s.newClaiming(claims)
			s.call(ctx, job)
			return job.grants
		},
		together: func(ctx context.Context, claims []renewer.Claim) []renewer.Grant {
			job := s.newClaiming(claims)
			if !s.callTogether(ctx, job, true) {
				return nil
			}
			return job.grants
		},
		unknown: s.noGrant,
		left:    func(c *renewer.Claim, over <-chan struct{}) { s.abandoned.add(c.Owner, over) },
		settled: func(c *renewer.Claim, over <-chan struct{}) { s.abandoned.remove(c.Owner, over) },
	}
}

func (s *Store) newReleases() *gather[renewer.Hold, renewer.Answer] {
	return &gather[renewer.Hold, renewer.Answer]{
		alike: func(a, b *renewer.Hold) bool { return a.Keep == b.Keep },
		alone: func(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
			job := s.newReleasing(holds)
			s.call(ctx, job)
			return job.answers
		},
		together: func(ctx context.Context, holds []renewer.Hold) []renewer.Answer {
			job := s.newReleasing(holds)
			if !s.callTogether(ctx, job, false) {
				return nil
			}
			return job.answers
		},
		unknown: func(err error) renewer.Answer {
			return renewer.Answer{Err: s.wrap("release", err)}
		},
	}
}
