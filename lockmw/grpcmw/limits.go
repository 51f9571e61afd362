package grpcmw

import (
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
)

// AtMost has n calls of a key run at once, over all servers, instead of one: see [lockmw.AtMost].
// Several limits for a call, 3 a tenant and 20 in all, are a key made by [lockmw.Limits]. A stream
// keeps its slot until it ends. A call for which there is none is codes.ResourceExhausted. It
// panics if n is negative. Default: a lock, unless the key is a limit's.
func AtMost(n int) Option {
	if n < 0 {
		panic(fmt.Sprintf("lockbeat: grpcmw.AtMost(%d) can't be meant: give how many may run at "+
			"once, 0 for none", n))
	}
	return AtMostFunc(func(string) int { return n })
}

// AtMostFunc is [AtMost] with a number for each key, which may change: see [lockmw.AtMostFunc]. It
// panics if limit is nil.
func AtMostFunc(limit func(name string) int) Option {
	if limit == nil {
		panic("lockbeat: grpcmw.AtMostFunc needs a function that returns how many may run at once")
	}
	return func(s *settings) { s.limits = append(s.limits, lockmw.AtMostFunc(limit)) }
}

// LocalShare has this server admit n calls of each limit at once by itself while the store is away:
// see [lockmw.LocalShare]. Further ones are codes.Unavailable, at once. It panics if n is not
// positive. Default: an outage closes the limit.
func LocalShare(n int) Option {
	positive("LocalShare", n)
	return func(s *settings) { s.limits = append(s.limits, lockmw.LocalShare(n)) }
}
