package httpmw

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
	"github.com/lockbeat/lockbeat/renewer"
)

// FailOpen runs the handler without the lock while the store is down. It is for work to which an
// outage does more harm than an overlap, and not for work that must not happen twice, such as a
// payment. lockmw.Fence is 0 then, which a fenced resource refuses whose lowest token is 1.
// Default: off.
//
// The store is down when it was asked and has answered nothing for
// renewer.Config.RequestTimeout (renewer.Keeper.Outage). A request that ran out of time beside
// others that were answered is refused with 503: otherwise a client could get rid of the lock
// by making the store busy. So is every request in the first RequestTimeout of an outage.
//
// At most atMost run without a lock at once in this handler, and one
// for each name; other servers do not know of them. Further ones are refused with
// 503. The keeper's observer is told of each, name by name (renewer.Observer's
// Unlocked), and package tracing counts them. A request waits for the store as long
// as for the lock, so give a short [Wait] too. It panics if atMost is below 1.
func FailOpen(atMost int) Option {
	if atMost < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.FailOpen(%d) can't be meant: give how many may run "+
			"without the lock at once, or leave it out so that none does", atMost))
	}
	return option(func(s *settings) { s.failOpen = atMost })
}

// unlocked lets work run without its lock while the store is down. A nil one lets none.
type unlocked struct {
	keeper     *renewer.Keeper
	all, names *quota.Each
}

func newUnlocked(k *renewer.Keeper, s *settings) *unlocked {
	if s.failOpen == 0 {
		return nil
	}
	return &unlocked{keeper: k, all: quota.New(s.failOpen), names: quota.New(1)}
}

// enter returns the context of work that may run although its lock
// was refused with err, and a function to call when it is over. Both are nil if the work may not
// run.
func (u *unlocked) enter(
	ctx context.Context, name, operation string, err error,
) (operationCtx context.Context, leave func()) {
	if u == nil || lockmw.RefusalOf(err) != lockmw.RefusalUnavailable {
		return nil, nil
	}
	names := lockmw.NamesOf(name)
	var outage time.Duration
	for _, one := range names {
		outage = max(outage, u.keeper.Outage(one))
	}
	if outage < u.keeper.Config().RequestTimeout {
		return nil, nil
	}
	leave = u.take(names)
	if leave == nil {
		return nil, nil
	}
	// The token of an outer lock is not this lock's: a resource must
	// be able to tell what is written without this lock.
	ctx = lockmw.WithFence(ctx, 0)
	told := false
	defer func() {
		if !told { // an observer has panicked
			leave()
		}
	}()
	if o := u.keeper.Config().Observer; o != nil {
		for _, one := range names {
			o.Unlocked(ctx, renewer.Unlocked{
				Name: one, Operation: operation, Outage: outage,
				Err: err,
			})
		}
	}
	told = true
	return ctx, leave
}

// take counts work on all of names, until leave is called. It returns nil if there is no room.
func (u *unlocked) take(names []string) (leave func()) {
	if !u.all.Take("") {
		return nil
	}
	taken := 0
	leave = func() {
		u.all.Give("")
		for _, one := range names[:taken] {
			u.names.Give(one)
		}
	}
	for _, one := range names {
		if !u.names.Take(one) {
			leave()
			return nil
		}
		taken++
	}
	return leave
}
