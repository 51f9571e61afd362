package httpmw

import (
	"context"
	"fmt"
	"sync"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/quota"
	"github.com/lockbeat/lockbeat/renewer"
)

// FailOpen runs the handler, or the call, without the lock while the store is down, for work to
// which an outage does more harm than an overlap: not for anything that must not happen twice, such
// as a payment. Default off. lockmw.Fence is 0 then, which fenced resources refuse.
//
// The store is down when it has answered nothing for renewer.Config.RequestTimeout, though it was
// asked (renewer.Keeper.Outage). A request that only ran out of time beside others that were
// answered is refused with 503: otherwise a client could get rid of the lock by making the store
// busy. So is every request of the first RequestTimeout of an outage.
//
// At most atMost run without their lock at once, in this handler or transport, and one for each
// name: another server's know nothing of them. Further ones are refused with 503. The keeper's
// observer is told of each (renewer.Observer's Unlocked), and package tracing counts them. The
// store is waited for as long as the lock would be, so take a short [Wait] with it. It panics if
// atMost is below 1.
func FailOpen(atMost int) CommonOption {
	if atMost < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.FailOpen(%d) can't be meant: give how many may run without the lock at once, "+
			"or leave it out so that none does", atMost))
	}
	return commonOption(func(s *settings) { s.failOpen = atMost })
}

// unlocked lets operations run without their lock while the store is down. A nil one lets none.
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

// enter returns the context of an operation that may run though its lock was refused with err, and
// what to call, more than once if need be, when it is over; nil if it may not.
func (u *unlocked) enter(ctx context.Context, name, operation string, err error) (operationCtx context.Context, leave func()) {
	if u == nil || lockmw.RefusalOf(err) != lockmw.RefusedUnavailable {
		return nil, nil
	}
	outage := u.keeper.Outage(name)
	if outage < u.keeper.Config().RequestTimeout || !u.names.Take(name) {
		return nil, nil
	}
	if !u.all.Take("") {
		u.names.Give(name)
		return nil, nil
	}
	leave = sync.OnceFunc(func() {
		u.all.Give("")
		u.names.Give(name)
	})
	// The token of an outer lock is not this one's: what is written without this lock must be told
	// apart.
	ctx = lockmw.WithFence(ctx, 0)
	if o := u.keeper.Config().Observer; o != nil {
		told := false
		defer func() {
			if !told { // it has panicked
				leave()
			}
		}()
		o.Unlocked(ctx, renewer.Unlocked{Name: name, Operation: operation, Outage: outage, Err: err})
		told = true
	}
	return ctx, leave
}

// operationOr is the name of the work, by default the route.
func (s *settings) operationOr(route string) string {
	if s.operation == "" {
		return route
	}
	return s.operation
}
