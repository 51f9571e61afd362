package redisstore

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// DefaultPrefix is before the keys of all locks: see [Prefix].
const DefaultPrefix = "lockbeat:"

const (
	defaultFenceTTL     = 24 * time.Hour
	defaultWriteTimeout = 10 * rueidis.DefaultTCPKeepAlive // which rueidis chooses if none is set
)

// Option changes one thing about a [Store].
type Option func(*settings)

type settings struct {
	prefix       string
	fenceTTL     time.Duration
	writeTimeout time.Duration
	replicas     int
	toInspect    bool
	log          *slog.Logger

	leastTTL    time.Duration // of Open; 0 otherwise
	closeClient func()        // does nothing if the client is the caller's
	secrets     *deployment.Secrets
}

// Prefix sets what all keys and channels begin with, in place of
// [DefaultPrefix]. Stores share locks if they share it; give each service one
// of its own. It has 1 to 256 bytes and ends in ":". It has no spaces, no
// control bytes, and none of {}*?[]\, so that PREFIX{* in a rule of Redis means
// this prefix and no other, even one that begins with it.
func Prefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// FenceTTL sets how long the server's mark, the highest fencing token granted
// there, outlives the last grant: at least 1 ms, 24 h by default. Let it be
// longer than the server's clock may ever be set back, and than the clocks of a
// quorum's programs may differ.
func FenceTTL(d time.Duration) Option { return func(s *settings) { s.fenceTTL = d } }

// WriteTimeout tells the store of [New] the ConnWriteTimeout of the client, 10
// s by default as rueidis'. After this time the engine cleans up once more
// behind an acquire whose reply was lost.
func WriteTimeout(d time.Duration) Option { return func(s *settings) { s.writeTimeout = d } }

// ToInspect makes a store for a Redis user who takes no locks and looks at
// those of others: [New] asks for the rights of inspect.List and Show alone,
// which docs/redis.md has.
func ToInspect() Option { return func(s *settings) { s.toInspect = true } }

// Log sets where warnings go: that the server may evict locks, that one behind
// Sentinel goes on without a replica, or that one which had not answered in
// time refuses what locks need. By default they go to slog.Default();
// renewer.Silent is none.
func Log(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// configure applies the options, and names every fault.
func configure(opts []Option) (s settings, faults []string) {
	s = settings{
		prefix: DefaultPrefix, fenceTTL: defaultFenceTTL, writeTimeout: defaultWriteTimeout,
		log: slog.Default(), closeClient: func() {},
	}
	for _, o := range opts {
		if o != nil {
			o(&s)
		}
	}
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...))
	}

	if text := deployment.PrefixFault(s.prefix); text != "" {
		fault("Prefix: %s", text)
	}
	if _, err := store.Millis(s.fenceTTL); err != nil {
		fault("FenceTTL: is %v; take at least 1ms, or leave it out for %v", s.fenceTTL,
			defaultFenceTTL)
	}
	if s.writeTimeout <= 0 {
		fault("WriteTimeout: is %v; give the ConnWriteTimeout of the client, or leave it out for "+
			"%v", s.writeTimeout, defaultWriteTimeout)
	}
	if s.replicas < 0 {
		fault("Replicas: is %d; give the number of replicas that must confirm a grant, or leave "+
			"it out for none", s.replicas)
	}
	if s.log == nil {
		fault("Log: is nil; leave it out for slog.Default(), or give renewer.Silent")
	}
	return s, faults
}

// faulty makes one error of all faults, or nil of none.
func faulty(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("redisstore: %w: %s", renewer.ErrConfig, strings.Join(faults, "; "))
}

// ClientOption completes the options of a rueidis client for locks with the
// given TTL, that of renewer.Config, and refuses those that would break a lock.
// What the caller has set is kept, unless it is refused. The error is
// [renewer.ErrConfig], and names each faulty field. Give the result's
// ConnWriteTimeout to [WriteTimeout].
//
// It fills in:
//
//   - DisableAutoPipelining, unless AlwaysPipelining is set, and BlockingPoolCleanup a minute:
//     a lone caller's requests have a connection of their own. Make such a client for locks
//     alone: other commands by it go on until ConnWriteTimeout when they are cancelled.
//   - DialCtxFn, around yours: a call returns at once when its context ends, and an answer that
//     a replica alone gives ends this process's connections to that address.
//   - PipelineMultiplex -1; ClusterOption.MaxMovedRedirections 8; DisableCache.
//   - Dialer.KeepAlive TTL/6 (at most 5 s), ConnWriteTimeout TTL/8 (at most 10 s) and
//     Dialer.Timeout TTL/6 (at most 5 s): a connection that answers no more is given up within
//     11/24 of the TTL.
//   - with Sentinel.MasterSet, Sentinel.Dialer as Dialer and Sentinel.TopologyRefreshInterval
//     TTL/3 (at most 5 s).
//
// A ConnWriteTimeout or Dialer.Timeout above TTL/4 and a KeepAlive above TTL/6
// are refused, and so is more than TTL/2 for 2 × KeepAlive + ConnWriteTimeout.
func ClientOption(opt rueidis.ClientOption, ttl time.Duration) (rueidis.ClientOption, error) {
	if _, err := store.Millis(ttl); err != nil {
		return opt, faulty([]string{fmt.Sprintf("ttl: is %v; give the TTL of the locks, at least "+
			"1ms", ttl)})
	}
	var faults []string
	fault := func(format string, args ...any) {
		faults = append(faults, fmt.Sprintf(format, args...))
	}

	// The client sends a PING when nothing has come for one KeepAlive, which it
	// looks at once in each, and waits ConnWriteTimeout for the answer: so a
	// dead connection is given up 2 × KeepAlive + ConnWriteTimeout after the
	// last answer, 11/24 of the TTL. A lease that was renewed just then is
	// believed in for 0.88 of the TTL, by the defaults of renewer.Config, and
	// two attempts on a new connection take up to 0.39 of it; 0.49 is left. A
	// process that does nothing but to renew, each TTL/3, sends one PING for
	// each renewal.
	//
	// Below these a connection would be given up because the machine is busy;
	// so TTLs under 120 ms get less than promised.
	const leastTimeout, leastAlive = 10 * time.Millisecond, 5 * time.Millisecond
	fill(&opt.ConnWriteTimeout, ttl/8, leastTimeout, defaultWriteTimeout)
	alive := min(ttl/6, (ttl/2-opt.ConnWriteTimeout)/2)
	fill(&opt.Dialer.KeepAlive, alive, leastAlive, mostKeepAlive)
	fill(&opt.Dialer.Timeout, ttl/6, leastTimeout, rueidis.DefaultDialTimeout)
	limits := []limit{
		{"ConnWriteTimeout", opt.ConnWriteTimeout, max(ttl/4, leastTimeout)},
		{"Dialer.KeepAlive", opt.Dialer.KeepAlive, max(ttl/6, leastAlive)},
		{"Dialer.Timeout", opt.Dialer.Timeout, max(ttl/4, leastTimeout)},
		{
			"2 × Dialer.KeepAlive + ConnWriteTimeout",
			2*opt.Dialer.KeepAlive + opt.ConnWriteTimeout,
			max(ttl/2, leastTimeout+2*leastAlive),
		},
	}
	if opt.Sentinel.MasterSet != "" {
		// With rueidis' own default, 0, a Sentinel that went silent is never
		// noticed, nor is any fail-over from then on. The refresh is for one
		// that is cut off from the others.
		fill(&opt.Sentinel.Dialer.KeepAlive, alive, leastAlive, mostKeepAlive)
		fill(&opt.Sentinel.Dialer.Timeout, ttl/6, leastTimeout, rueidis.DefaultDialTimeout)
		fill(&opt.Sentinel.TopologyRefreshInterval, ttl/3, 100*time.Millisecond, mostRefresh)
		limits = append(limits,
			limit{
				"Sentinel.Dialer.KeepAlive", opt.Sentinel.Dialer.KeepAlive,
				max(ttl/6, leastAlive),
			},
			limit{"Sentinel.Dialer.Timeout", opt.Sentinel.Dialer.Timeout, max(ttl/4, leastTimeout)})
	}
	for _, f := range limits {
		switch {
		case f.got < 0:
			fault("%s: is %v, so that a dead connection is never noticed; leave it 0", f.field,
				f.got)
		case f.got > f.most:
			fault("%s: is %v, so that a dead connection is noticed too late to renew a lease of "+
				"%v on another; "+
				"set at most %v, or leave it 0", f.field, f.got, ttl, f.most)
		}
	}

	if opt.ReplicaOnly {
		fault("ReplicaOnly: a replica can't hold locks; leave it false")
	}
	if opt.SendToReplicas != nil || len(opt.Standalone.ReplicaAddress) > 0 {
		fault("SendToReplicas, Standalone.ReplicaAddress: a replica knows a lock too late; leave " +
			"them unset")
	}
	if opt.ClientTrackingOptions != nil || opt.OnInvalidations != nil {
		fault("ClientTrackingOptions, OnInvalidations: the server would send a message for every " +
			"renewal; leave them unset")
	}
	if err := faulty(faults); err != nil {
		return opt, err
	}
	opt.DisableAutoPipelining = !opt.AlwaysPipelining
	fill(&opt.BlockingPoolCleanup, time.Minute, 0, time.Minute)
	opt.DisableCache = true
	// Else nodes that disagree about a slot would send a request to and fro
	// until its context ends.
	if opt.ClusterOption.MaxMovedRedirections == 0 {
		opt.ClusterOption.MaxMovedRedirections = 8
	}
	if opt.PipelineMultiplex == 0 {
		opt.PipelineMultiplex = -1
	}
	opt.DialCtxFn = wire.CountingDial(&opt)
	return opt, nil
}

// mostKeepAlive bounds how long a caller who acquires now and then is in the
// dark about a dead connection, however long the TTL.
const mostKeepAlive = 5 * time.Second

// mostRefresh is the TopologyRefreshInterval that rueidis recommends.
const mostRefresh = 5 * time.Second

// limit is the most that an option may be.
type limit struct {
	field     string
	got, most time.Duration
}

// fill sets a duration that is 0 to want, kept between least and most.
func fill(d *time.Duration, want, least, most time.Duration) {
	if *d == 0 {
		*d = min(max(want, least), most)
	}
}
