package lockmw

import (
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/renewer"
)

// Replace has the newest call win: it ends the operation that has the lock, and takes the place of
// a call with Replace or [Latest] that waits for it, in any process. It is for work of which the
// last request alone counts: a search as one types, a preview, a build of the latest commit.
//
// The operation's context ends with a [renewer.LostError] that is [renewer.ErrReplaced], whatever
// options it was called with: at once, or, if it was called without Replace and is younger, when it
// is a second old. The call has the lock when that operation has returned, or its TTL has ended;
// never while both may run. So an operation that does not heed its context delays the newest call,
// which waits as [Wait] says, 10 s by default. A call that was waiting is [renewer.ErrBusy] and
// [renewer.ErrReplaced].
//
// The newest call is that of the greatest rank ([Ranked]). Without ranks it is the one that was
// made last, as far as the store can tell: to some milliseconds, and for a minute. If what was
// ordered first may be called last, as with a queue, retries or a proxy between, give ranks, or let
// the operation read the state that it acts on rather than be given it.
//
// It is for one lock: with [Keys], or with a limit ([AtMost], [Limit]), the call is refused with
// [renewer.ErrConfig] before anything is asked; so it is where the store does not know which call
// is the newest, as package quorum's does not. A call inside of the lock runs in it, as ever.
func Replace() Option { return only(renewer.NewestReplaces) }

// Latest waits, as [Wait] says, as the only call: it takes the place of a call with Latest or
// [Replace] that waits for the lock already, in any process, whose error is [renewer.ErrBusy] and
// [renewer.ErrReplaced] then. So one call runs, to its end, and one waits, the newest. It is for
// work that is to be done once more after the last change, however many there were. What Replace is
// for and not for, and what is refused, is the same.
func Latest() Option { return only(renewer.NewestWaits) }

func only(newest renewer.Newest) Option {
	return func(s settings) settings {
		s.contention, s.newest = wait, newest
		return s
	}
}

// Ranked makes the name of a lock with a rank: how new the work is that wants it. Give the version
// of what it works on, an ID that rises, or when it was ordered: 1 or more. It can be given
// wherever this package or an adapter takes a name but to [Keys], [Limit] and [RunWhileHeld], also
// to [Held] and [FenceOf], where the rank does not matter. It means something in this process only.
//
// A call of a lower rank than one that has had the lock is refused with [renewer.ErrBusy] and
// [renewer.ErrReplaced], whenever it comes, and with [Replace] or [Latest] the greater rank is the
// newer call: so what runs last is the newest, whatever workers, retries and networks have made of
// the order. A call of the same rank is the same work again, such as a retry of the newest, and
// runs; with Replace or Latest it takes the place of the one before. A rank counts as soon as its
// call has the lock, though that fails: the newest work is to be tried again, and nothing older.
//
// A lock's ranks are known for 24 h after a call with one has had it, and take about 200 bytes of
// the store's memory; an older call that comes later than that runs. Give all calls of a name
// ranks of one kind: one without goes by when it was made. An empty name makes an empty one. A rank
// below 1, and the name of a limit or of several, make a name that every call is refused for, with
// [renewer.ErrName]. A store that does not know which call is the newest refuses it as it does
// Replace.
func Ranked(name string, rank int64) string {
	if name == "" || tooMany(name) != nil {
		return name
	}
	name, _ = naming.CutRank(name)
	_, _, limit := naming.CutLimit(name)
	switch {
	case rank < 1:
		return refusal + fmt.Sprintf("its rank is %d; give 1 or more", rank)
	case limit || naming.Split(name) != nil:
		return refusal + noRank
	default:
		return naming.Rank(name, rank)
	}
}

// noRank is a refusal.
const noRank = "only a lock has a rank (Ranked), and neither a limit nor several names"

// rankAmong is a name that stands for several of which one has a rank, as that of a refusal.
func rankAmong(names []string) string {
	for _, one := range names {
		if _, rank := naming.CutRank(one); rank != 0 {
			return refusal + noRank
		}
	}
	return ""
}

// ranked returns the name that a name with a rank stands for, and the settings of its call.
func (s settings) ranked(name string) (string, settings) {
	name, s.rank = naming.CutRank(name)
	return name, s
}

// checkNewest refuses [Replace], [Latest] and [Ranked] for what is not one lock, before anything is
// asked.
func (s settings) checkNewest(name string) error {
	if s.newest == renewer.NewestOff && s.rank == 0 {
		return nil
	}
	_, _, limit := naming.CutLimit(name)
	switch {
	case naming.Split(name) != nil:
		return fmt.Errorf("%w: Replace, Latest, Ranked: the call is for several names (Keys): "+
			"give it one", renewer.ErrConfig)
	case limit:
		return fmt.Errorf("%w: Replace, Latest, Ranked: they are for locks, and the name is that "+
			"of a limit (AtMost, Limit)", renewer.ErrConfig)
	default:
		return nil
	}
}
