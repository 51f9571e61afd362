package httpmw

import (
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/renewer"
)

// Defaults of the options.
const (
	// DefaultMaxBody is how many bytes of body [Handle] reads: 1 MiB.
	DefaultMaxBody = 1 << 20
	// DefaultBodyTimeout is how long 64 KiB of a body may take: 10 s.
	DefaultBodyTimeout = 10 * time.Second
	// DefaultMaxWaiters is how many requests may wait for one lock, in this process.
	DefaultMaxWaiters = 100
)

// settings are what the options set. Exclusive and Handle each read those that apply.
type settings struct {
	answers

	// The lock.
	policy    lockmw.Option
	longest   time.Duration // that policy waits; 0: it does not
	operation string        // "": the route
	waiters   int
	maxHold   maxhold.Setting
	failOpen  int // how many may run without their lock; 0: none
	abortLost bool
	// nobody waits for the release
	background bool

	// The request's body.
	maxBody     int64 // 0, for Exclusive: no bound
	bodyTimeout time.Duration
	streamBody  bool
	codec       func(*http.Request, any) error // nil, for Exclusive

	// The client.
	clientWaiters int
	client        KeyFunc // nil: no bound for each client
}

func newSettings() settings {
	s := settings{
		answers: answers{onBusy: Respond, onError: Respond},
		waiters: DefaultMaxWaiters, bodyTimeout: DefaultBodyTimeout,
	}
	s.wait(lockmw.DefaultWait)
	return s
}

func (s *settings) wait(d time.Duration) {
	s.policy, s.longest, s.busyStatus = lockmw.Wait(d), d, http.StatusServiceUnavailable
}

// lock returns the options for lockmw.
func (s *settings) lock(route string) []lockmw.Option {
	opts := []lockmw.Option{
		s.policy, lockmw.MaxWaiters(s.waiters), lockmw.Operation(s.operationOr(route)),
	}
	opts = maxhold.AddTo(opts, s.maxHold, lockmw.MaxHold)
	if s.background {
		opts = append(opts, lockmw.ReleaseInBackground())
	}
	return opts
}

// checkMaxHold panics if no lock of k can be had with MaxHold.
func (s *settings) checkMaxHold(k *renewer.Keeper) {
	if err := s.maxHold.Check(k); err != nil {
		panic(err.Error())
	}
}

// operationOr returns the name of the work, by default the route.
func (s *settings) operationOr(route string) string {
	if s.operation == "" {
		return route
	}
	return s.operation
}

// tracks reports whether the writer is wrapped, to know what the handler has written.
func (s *settings) tracks() bool { return s.abortLost || s.onLost != nil }
