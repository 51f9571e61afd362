// Package native says when a claim of one free lock needs no script: SET NX of
// the lease, and INCR of the mark, in one write. The token is INCR's answer,
// which is above all tokens that this server has given, whatever its clock
// does.
//
// What it holds true: no token counts that could be below one given before. A
// server that has forgotten (flushed, restarted empty, promoted behind its
// primary) shows it by the token itself: a script's is at least the server's
// clock, from then on the clock is reckoned here, and a token that is far
// behind that does not count. Then the script decides, for the same owner, and
// lifts the mark to the clock. That does not show if a server is promoted that
// lacks no more than the last moment: it could give a token again that its
// primary gave in that moment. But a client makes a connection before it turns
// to another server, and for [QuietFor] after one was made no claim is native,
// and no token of one counts.
//
// Rejected, by the model in this package's tests, which has their
// counter-examples: INCR before SET; counting connections; a while after the
// caller's own script.
package native

import (
	"sync"
	"time"
)

const (
	// Lag is how far a token may be behind the reckoned clock. So at most that
	// long after a script, claims are native.
	Lag = 100 * time.Millisecond
	// QuietFor is how long no connection was made before a native claim.
	QuietFor = time.Second
	// pause is how many claims go by script after one that was refused.
	pause = 16
)

// Rule says it for one server. It may be used concurrently.
type Rule struct {
	// Quiet reports whether no connection was made for QuietFor.
	Quiet func() bool

	mu        sync.Mutex
	last      int64     // the latest token; 0: none
	script    int64     // the latest of a script
	sent, got time.Time // when that was asked for, and answered
	pause     int       // how many claims are yet to go by script
	never     bool
	some      bool // whether one was granted
}

// Script notes the token of a script's grant, and when it was asked for and
// answered. One that is not above the latest says nothing of the clock: it is
// an earlier grant, told again.
func (r *Rule) Script(token int64, sent, got time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token > r.last {
		r.last, r.script, r.sent, r.got = token, token, sent, got
	}
}

// May reports whether a claim may be native, and if so, what the server's clock
// in us shows by now, or a little less.
func (r *Rule) May(now time.Time) (clock int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.never || !r.counts(r.last, now) {
		return 0, false
	}
	if r.pause > 0 {
		r.pause--
		return 0, false
	}
	return r.script + now.Sub(r.got).Microseconds(), true
}

// Granted reports whether a token counts that INCR has answered.
func (r *Rule) Granted(token int64, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.counts(token, now) {
		return false
	}
	r.last, r.some = token, true
	return true
}

func (r *Rule) counts(token int64, now time.Time) bool {
	return r.last != 0 && near(token, r.reckoned(now), Lag.Microseconds()) && r.Quiet()
}

// reckoned is what the server's clock shows at most, in us, unless it was set.
// Of the time since, whichever of two clocks shows more counts: one stands
// still while the machine is suspended, and the other may be set back.
func (r *Rule) reckoned(now time.Time) int64 {
	since := max(now.Sub(r.sent), now.Round(0).Sub(r.sent.Round(0)))
	return r.script + since.Microseconds()
}

// near reports whether a token is behind a reckoned clock by lag at most.
func near(token, reckoned, lag int64) bool { return token >= reckoned-lag }

// Refused notes that a native claim was not granted, which costs the server as
// much again: the next few are likely not to be either. With never, none will.
func (r *Rule) Refused(never bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause, r.never = pause, r.never || never
}

// Calm reports whether the latest native claims were granted: few callers meet.
func (r *Rule) Calm() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.some && r.pause == 0
}

// Some reports whether a native claim was ever granted.
func (r *Rule) Some() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.some
}
