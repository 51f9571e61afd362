package httpmw

import (
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
)

// AtMost has n requests of a name run at once, over all servers, instead of one: see
// [lockmw.AtMost]. Several limits for a request, 3 a user and 20 in all, are a name made by
// [lockmw.Limits]. It panics if n is negative. Default: a lock, unless the name is a limit's.
func AtMost(n int) Option {
	if n < 0 {
		panic(fmt.Sprintf("lockbeat: httpmw.AtMost(%d) can't be meant: give how many may run at "+
			"once, 0 for none", n))
	}
	return AtMostFunc(func(string) int { return n })
}

// AtMostFunc is [AtMost] with a number for each name, which may change: see [lockmw.AtMostFunc]. It
// panics if limit is nil.
func AtMostFunc(limit func(name string) int) Option {
	if limit == nil {
		panic("lockbeat: httpmw.AtMostFunc needs a function that returns how many may run at once")
	}
	return func(s *settings) {
		s.atMost, s.limits = limit, append(s.limits, lockmw.AtMostFunc(limit))
	}
}

// LocalShare has this server admit n requests of each limit at once by itself while the store is
// away: see [lockmw.LocalShare]. Further ones get 503, at once. It panics if n is below 1. Default:
// an outage closes the limit, unless [FailOpen] is given.
func LocalShare(n int) Option {
	if n < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.LocalShare(%d) can't be meant: give how many this "+
			"server may admit by itself, or leave it out so that an outage closes the limit", n))
	}
	return func(s *settings) { s.limits = append(s.limits, lockmw.LocalShare(n)) }
}
