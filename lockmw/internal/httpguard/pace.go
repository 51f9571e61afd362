package httpguard

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// Paced is a body that has to come at a pace: reading fails when the next 64 KiB of it, or
// what is left, have not come within the timeout. Single bytes now and then do not extend
// that. Only time in which the handler reads counts, so it may do something else meanwhile.
//
// It sets no deadline ahead, since that would replace one that it can't know: the server's own
// (http.Server.ReadTimeout), other middleware's or the handler's. When the time is over it sets a
// deadline that has passed.
type Paced struct {
	body    io.ReadCloser
	control *http.ResponseController
	timeout time.Duration

	mu    sync.Mutex
	timer *time.Timer   // nil until the first call
	begun time.Time     // when the call that reads began; zero: none does
	left  time.Duration // for the rest of the piece
	came  int           // bytes of the piece that have come
	late  bool          // the client was too slow
	off   bool          // the request is over, or its deadline can't be set
}

// paceBytes must come within the timeout.
const paceBytes = 64 << 10

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// Pace returns the body of r at a pace of 64 KiB in timeout. If w can't set deadlines
// there is no pace. The body must be stopped before the handler of the request returns.
func Pace(w http.ResponseWriter, r *http.Request, timeout time.Duration) *Paced {
	return &Paced{
		body: r.Body, control: http.NewResponseController(w), timeout: timeout, left: timeout,
		off: !SetsDeadlines(w),
	}
}

// Stop ends the pace. The writer is not used after that.
func (p *Paced) Stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.off = true
	if p.timer != nil {
		p.timer.Stop()
	}
}

// Read reads from the body, and fails if that is too slow.
func (p *Paced) Read(b []byte) (int, error) {
	if p.begin() {
		return 0, p.tooSlow()
	}
	n, err := p.body.Read(b)
	if p.end(n) {
		err = p.tooSlow()
	}
	return n, err
}

// Close closes the body. net/http may read on for that, which counts.
func (p *Paced) Close() error {
	p.begin()
	err := p.body.Close()
	p.end(0)
	return err
}

func (p *Paced) begin() (late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late || p.off {
		return p.late
	}
	p.begun = time.Now()
	if p.timer == nil {
		p.timer = time.AfterFunc(p.left, p.expire)
	} else {
		p.timer.Reset(p.left)
	}
	return false
}

func (p *Paced) end(n int) (late bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.late || p.begun.IsZero() {
		return p.late
	}
	p.timer.Stop()
	p.left -= time.Since(p.begun)
	p.begun = time.Time{}
	if p.came += n; p.came >= paceBytes {
		p.came, p.left = 0, p.timeout
	}
	return false
}

// expire ends a read that has taken too long. It may run late, when the next read has begun.
func (p *Paced) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.off || p.begun.IsZero() || time.Since(p.begun) < p.left {
		return
	}
	p.begun = time.Time{}
	p.late = p.control.SetReadDeadline(longAgo) == nil
	p.off = !p.late
}

func (p *Paced) tooSlow() error {
	return fmt.Errorf("%w: it came too slowly, less than %d KiB in %v: if clients are meant to "+
		"be so slow, raise BodyTimeout: %w",
		ErrBody, paceBytes>>10, p.timeout, os.ErrDeadlineExceeded)
}

// SetsDeadlines reports whether http.ResponseController can set a read deadline by w.
func SetsDeadlines(w http.ResponseWriter) bool {
	for {
		switch v := w.(type) {
		case interface {
			SetReadDeadline(deadline time.Time) error
		}:
			return true
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return false
		}
	}
}
