package idempotent

import (
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
)

// Defaults of the options.
const (
	// DefaultKeepAnswer is how long an answer is replayed: a day.
	DefaultKeepAnswer = repeat.DefaultKeepAnswer
	// DefaultMaxAnswer is how many bytes an answer may have, headers and trailers included, to be
	// stored: 64 KiB.
	DefaultMaxAnswer = repeat.DefaultMaxAnswer
	// DefaultMaxStored is how many bytes of stored answers a caller may add in each [KeepAnswer]:
	// 64 MiB.
	DefaultMaxStored = repeat.DefaultMaxStored
	// DefaultFinishWithin is how long a handler may go on when its client has gone: a minute.
	DefaultFinishWithin = repeat.DefaultFinishWithin
	// DefaultMaxRunningPerCaller is how many requests of one caller are carried out at once: 64.
	DefaultMaxRunningPerCaller = repeat.DefaultMaxRunning
)

type settings struct {
	repeat.Settings

	operation    string // "": the route
	keyOptional  bool
	maxBody      int64
	bodyTimeout  time.Duration
	keepStatus   func(status int) bool
	beforeReplay func(http.Handler) http.Handler

	onBusy, onError httpmw.Responder
	retryIn         time.Duration // 0: the defaults
}

func newSettings() settings {
	return settings{
		Settings: repeat.Defaults(httpmw.DefaultMaxWaiters),
		maxBody:  httpmw.DefaultMaxBody, bodyTimeout: httpmw.DefaultBodyTimeout,
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
