package httpmw

import (
	"fmt"
	"net/http"
	"time"

	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
)

// Defaults of what is read of a request's body, and how.
const (
	// DefaultMaxBody is how many bytes of body [Handle] and [Idempotent] read: 1 MiB.
	DefaultMaxBody = 1 << 20
	// DefaultBodyBefore is how many bytes of body [Exclusive] reads before it asks for the lock,
	// unless [MaxBody] has it read all: 256 KiB.
	DefaultBodyBefore = 256 << 10
	// DefaultBodyTimeout is how long 64 KiB of a body may take: 10 s.
	DefaultBodyTimeout = 10 * time.Second
)

// MaxBody bounds a request's body to n bytes: 413 beyond, and no lock is asked for. All of it is
// read before the lock, and kept in memory. Default for [Handle] and [Idempotent]:
// [DefaultMaxBody], 1 MiB. Default for [Exclusive]: no bound; of a body above [DefaultBodyBefore],
// 256 KiB, the rest is read under the lock. It panics if n is below 1.
func MaxBody(n int64) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.MaxBody(%d) can't be meant: give a number of bytes, "+
			"such as httpmw.DefaultMaxBody", n))
	}
	return serverOption(func(s *settings) { s.maxBody, s.streamBody = n, false })
}

// BodyTimeout is how long each 64 KiB of a request's body may take, and a smaller body, or the end
// of a larger one, as well: 408 beyond, and no lock is asked for. Under the lock the handler's Read
// fails beyond, with an error that is [ErrBody] and os.ErrDeadlineExceeded. Time in which the
// handler does not read does not count. It never extends http.Server.ReadTimeout, nor a deadline
// that the handler or other middleware has set (http.ResponseController.SetReadDeadline). Default
// [DefaultBodyTimeout], 10 s. It panics if d is not positive.
func BodyTimeout(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: httpmw.BodyTimeout(%v) can't be meant: give a positive "+
			"duration, such as httpmw.DefaultBodyTimeout", d))
	}
	return serverOption(func(s *settings) { s.bodyTimeout = d })
}

// StreamBody leaves the whole body to the handler, under the lock and at any pace: for handlers
// that answer while they read, such as a gRPC server behind net/http. A client can hold the lock
// for as long as it likes then, by sending nothing: set renewer.Config.MaxHold, and either
// http.Server.ReadTimeout or a deadline of the handler's own (http.ResponseController). It is for
// [Exclusive]; [Handle], which decodes the body, panics with it.
func StreamBody() Option {
	return serverOption(func(s *settings) { s.maxBody, s.streamBody = 0, true })
}

// checkDeadlines tells of a writer by which a client that is slow to send can't be stopped. Its
// request is carried out all the same, at whatever pace.
func (g *guard) checkDeadlines(w http.ResponseWriter, r *http.Request) {
	if httpguard.SetsDeadlines(w) {
		return
	}
	g.Tell(&g.deadlines, fmt.Errorf("%w: the http.ResponseWriter on the route %q can't set a "+
		"read deadline: a client that is slow to send more than %d KiB of body holds its lock for "+
		"as long as it likes; let the writers of middleware outside of the lock have "+
		"Unwrap() http.ResponseWriter, or have bodies read before the lock by httpmw.MaxBody",
		renewer.ErrConfig, r.Pattern, DefaultBodyBefore>>10))
}
