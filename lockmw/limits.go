package lockmw

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/renewer"
)

// AtMost makes the name that of a limit instead of a lock: at most n calls run at once, over all
// processes, and more wait in line, or are refused, as for a lock. Each has a slot of its own, with
// a heartbeat, a loss and a fencing token: no slot lapses under a call that runs, and that of a
// process that died is free when its TTL is over. With [Keys] each name is a limit of n.
//
// A limit and a lock of one name are two things. n is this process's own number and is kept
// nowhere: a lower one ends no call. 0 closes the limit: [renewer.ErrBusy] and
// [renewer.ErrLimitClosed]
// at once. Below 0 the call is refused with [renewer.ErrConfig], and so is one whose name is that
// of a limit already, by [Limit].
func AtMost(n int) Option { return AtMostFunc(func(string) int { return n }) }

// AtMostFunc is [AtMost] with a number for each name, which may change: it is asked for before each
// question to the store, so that a call that waits goes by the latest. limit must return at once.
func AtMostFunc(limit func(name string) int) Option {
	if limit == nil { // refused, rather than a lock
		limit = func(string) int { return -1 }
	}
	return func(s settings) settings { s.limit = limit; return s }
}

// Limit makes a name that stands for a limit: at most n calls run at once that hold it, see
// [AtMost]. It can be given wherever this package or an adapter takes a name, also to [Keys], among
// locks, and to [Held] and [FenceOf], where n does not matter. It means something in this process
// only. An empty name makes an empty one.
func Limit(name string, n int) string {
	if name == "" || tooMany(name) != nil {
		return name
	}
	if _, rank := naming.CutRank(name); rank != 0 {
		return refusal + noRank
	}
	return naming.Limited + strconv.Itoa(n) + ":" + name
}

// twiceGiven names no limit: it becomes the text of an error.
const twiceGiven = "a limit is given twice for one call; give each once"

// Limits makes one name of several limits, for a call that needs a slot of each: three a user, say,
// and twenty in all. It gets them all or none: in one request if none is full; otherwise it
// waits for the narrowest first, then for the next, so that nobody who waits for a wide one keeps
// it idle for others. What is said of [Keys] is true here. A limit named twice, or more than 64,
// make a name that every call is refused for, with [renewer.ErrName].
func Limits(limits ...string) string {
	if twice := slices.Clone(limits); len(distinct(twice)) < len(limits) {
		return refusal + twiceGiven
	}
	return Keys(limits...)
}

// givenTwice is a name that stands for two limits that differ by their numbers alone, as the name
// of a refusal; "" if there is none.
func givenTwice(names []string) string {
	limits := make(map[string]bool)
	for _, one := range names {
		plain, _, limit := naming.CutLimit(one)
		if limit && limits[plain] {
			return refusal + twiceGiven
		}
		if limit {
			limits[plain] = true
		}
	}
	return ""
}

// asLimits makes limits of the names that a call is for, if it goes by [AtMost].
func (s settings) asLimits(name string) (string, error) {
	if s.limit == nil || name == "" || strings.HasPrefix(name, refusal) {
		return name, nil
	}
	names := naming.Split(name)
	if names == nil {
		names = []string{name}
	}
	for i, one := range names {
		if plain, n, ok := naming.CutLimit(one); ok {
			return "", fmt.Errorf("%w: %q is given two numbers, by AtMost and by "+
				"Limit(%[2]q, %d): leave AtMost out", renewer.ErrConfig, plain, n)
		}
		names[i] = naming.Limited + naming.ByFunc + strconv.Itoa(s.limit(one)) + ":" + one
	}
	return Keys(names...), nil
}

// limitOf is the name of the lock or limit that a name stands for, and how many may hold the limit;
// nil for a lock.
func (s settings) limitOf(name string) (plain string, limit func() int) {
	plain, n, ok := naming.CutLimit(name)
	switch {
	case !ok:
		return name, nil
	case strings.HasPrefix(name, naming.Limited+naming.ByFunc):
		limited, most := plain, s.limit // of their own: these two are on the heap
		return plain, func() int { return most(limited) }
	default:
		return plain, func() int { return n }
	}
}
