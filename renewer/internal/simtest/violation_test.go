package simtest_test

import "fmt"

// kind is what a violation breaks.
type kind string

const (
	// twoBelieve: two owners believed in one name at the same time.
	twoBelieve kind = "two believe"
	// outside: somebody believed, or was told to believe, in a lease
	// at an instant when the store did not hold the key for it.
	outside kind = "belief outside the truth"
	// lateNotice: a loss was told less than the margin before the store would
	// have let the key go.
	lateNotice kind = "late notice"
	// revived: a lease that was lost said that it holds.
	revived kind = "revived"
	// falseLoss: a lease was said to be another's, or not to have
	// been renewed in time, and nothing was in its way.
	falseLoss kind = "false loss"
	// tokens: a fencing token was not above those before it.
	tokens kind = "tokens do not rise"
	// lapsed: a key was left to its TTL in weather in which it could have been
	// freed.
	lapsed kind = "left to lapse"
	// leftover: a key was still held after its keeper's clean shutdown, or for
	// longer than its TTL.
	leftover kind = "left over"
	// heartbeats: an idle lease did not cost exactly one renewal an interval.
	heartbeats kind = "heartbeats"
	// hang: a caller waited although nobody was in its way.
	hang kind = "hang"
	// starved: a process that wanted a name all the time had to wait for too
	// long.
	starved kind = "starved"
	// wasted: turns lapsed in weather in which they could have been claimed.
	wasted kind = "wasted turns"
	// contract: the engine asked the store for what it must not ask,
	// or told its caller what it must not tell.
	contract kind = "contract"
)

// violation is one of an invariant, in words.
type violation struct {
	kind kind
	text string
}

func (v violation) String() string { return fmt.Sprintf("%s: %s", v.kind, v.text) }
