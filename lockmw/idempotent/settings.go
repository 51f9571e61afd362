package idempotent

import (
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
)

// Defaults of the options.
const (
	// DefaultKeepAnswer is how long an answer is replayed: a day.
	DefaultKeepAnswer = once.DefaultKeep
	// DefaultMaxAnswer is how many bytes an answer may have, headers and trailers included, to be
	// stored: 64 KiB.
	DefaultMaxAnswer = once.DefaultMaxResult
	// DefaultMaxStored is how many bytes of stored answers a caller may add in each [KeepAnswer]:
	// 64 MiB.
	DefaultMaxStored = 64 << 20
	// DefaultFinishWithin is how long a handler may go on when its client has gone: a minute.
	DefaultFinishWithin = time.Minute
)

type settings struct {
	operation    string // "": the route
	scope        string
	keyOptional  bool
	maxBody      int64
	bodyTimeout  time.Duration
	waiters      int
	answerWait   time.Duration // 0: none
	finishWithin time.Duration

	keepAnswer   time.Duration
	maxAnswer    int
	maxStored    int64
	keepStatus   func(status int) bool
	seal         sealer
	beforeReplay func(http.Handler) http.Handler

	onBusy, onError httpmw.Responder
	retryIn         time.Duration // 0: the defaults
}

func newSettings() settings {
	return settings{
		maxBody: httpmw.DefaultMaxBody, bodyTimeout: httpmw.DefaultBodyTimeout,
		waiters: httpmw.DefaultMaxWaiters, finishWithin: DefaultFinishWithin,
		keepAnswer: DefaultKeepAnswer, maxAnswer: DefaultMaxAnswer, maxStored: DefaultMaxStored,
		keepStatus: finalStatus, onBusy: httpmw.Respond, onError: httpmw.Respond,
	}
}

// operationOr is the name of the work, by default the route.
func (s *settings) operationOr(route string) string {
	if s.operation == "" {
		return route
	}
	return s.operation
}
