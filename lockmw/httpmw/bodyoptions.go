package httpmw

import (
	"fmt"
	"time"
)

// MaxBody bounds a request's body to n bytes: 413 beyond, and no lock is asked for. All of it is
// read before the lock, and kept in memory. Default for [Handle] and [Idempotent]:
// [DefaultMaxBody], 1 MiB. Default for [Exclusive]: no bound; of a body above 256 KiB the
// rest is read under the lock. It panics if n is below 1.
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
