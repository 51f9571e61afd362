package redisstore

import (
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
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

// Prefix sets what all keys and channels begin with, in place of [DefaultPrefix]. Stores share
// locks if they share it; give each service one of its own. It has 1 to 256 bytes and ends in
// ":". It has no spaces, no control bytes, and none of {}*?[]\, so that PREFIX{* in a rule of
// Redis means this prefix and no other, even one that begins with it.
func Prefix(prefix string) Option { return func(s *settings) { s.prefix = prefix } }

// FenceTTL sets how long the server's mark, the highest fencing token granted there, outlives the
// last grant: at least 1 ms, 24 h by default. Let it be longer than the server's clock may ever be
// set back, and than the clocks of a quorum's programs may differ.
func FenceTTL(d time.Duration) Option { return func(s *settings) { s.fenceTTL = d } }

// WriteTimeout tells the store of [New] the ConnWriteTimeout of the client, 10 s by default as
// rueidis'. After this time the engine cleans up once more behind an acquire whose reply was lost.
func WriteTimeout(d time.Duration) Option { return func(s *settings) { s.writeTimeout = d } }

// ToInspect makes a store for a Redis user who takes no locks and looks at those of others: [New]
// asks for the rights of inspect.List and Show alone, which docs/redis.md has.
func ToInspect() Option { return func(s *settings) { s.toInspect = true } }

// Log sets where warnings go: that the server may evict locks, that one behind Sentinel goes on
// without a replica, or that one which had not answered in time refuses what locks need. By default
// they go to slog.Default(); renewer.Silent is none.
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

// isNil also finds the nil of a concrete client inside an interface that is not nil.
func isNil(client rueidis.Client) bool {
	if client == nil {
		return true
	}
	v := reflect.ValueOf(client)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
