package httpmw

import (
	"fmt"
	"time"
)

// MaxBody bounds a request's body to n bytes: 413 beyond, and no lock is asked
// for. All of it is read before the lock, into memory. It panics if n is below
// 1. Default for [Handle]: [DefaultMaxBody], 1 MiB. Default for [Exclusive]:
// no bound, and of a body above 256 KiB the rest is read under the lock.
func MaxBody(n int64) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.MaxBody(%d) can't be meant: give a number of bytes, "+
			"such as httpmw.DefaultMaxBody", n))
	}
	return option(func(s *settings) { s.maxBody, s.streamBody = n, false })
}

// BodyTimeout is how long each 64 KiB of a request's body may take, and what is left at
// its end: 408 beyond, and no lock is asked for. Under the lock the handler's Read fails
// instead, with an error that is [ErrBody] and os.ErrDeadlineExceeded. Only time in which
// the handler reads counts. It never extends http.Server.ReadTimeout, nor a deadline that
// the handler or other middleware has set (http.ResponseController.SetReadDeadline). It
// panics if d is not positive. Default [DefaultBodyTimeout], 10 s.
func BodyTimeout(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: httpmw.BodyTimeout(%v) can't be meant: give a positive "+
			"duration, such as httpmw.DefaultBodyTimeout", d))
	}
	return option(func(s *settings) { s.bodyTimeout = d })
}

// StreamBody has the handler read the whole body under the lock, at any pace. It is for
// handlers that answer while they read, such as a gRPC server behind net/http. By sending
// nothing a client can hold the lock for as long as it likes: set renewer.Config.MaxHold, and
// either http.Server.ReadTimeout or a deadline of the handler's own (http.ResponseController).
// It is for [Exclusive]; [Handle] panics with it, since it decodes the body.
func StreamBody() Option {
	return option(func(s *settings) { s.maxBody, s.streamBody = 0, true })
}
