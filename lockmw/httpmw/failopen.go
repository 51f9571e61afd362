package httpmw

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/lockmw/internal/naming"
	"github.com/lockbeat/lockbeat/renewer"
)

// FailOpen runs the handler without the lock while the store is down. It is for work to which an
// outage does more harm than an overlap, and not for work that must not happen twice, such as a
// payment. lockmw.Fence is 0 then, which a fenced resource refuses whose lowest token is 1.
// Default: off.
//
// The store is down when it was asked and has answered nothing for renewer.Config.FailOver
// (renewer.Keeper.Outage). A request that ran out of time beside others that were answered is
// refused with 503: otherwise a client could get rid of the lock by making the store busy. So is
// one whose [Wait] runs out before an outage has lasted for FailOver.
//
// At most atMost run without a lock at once in this handler, and one for each name, or as many as
// its limit; other servers do not know of them. Further ones are refused with 503. The keeper's
// observer is told of each, name by name (renewer.Observer's Unlocked), and package tracing counts
// them. It panics if atMost is below 1.
func FailOpen(atMost int) Option {
	if atMost < 1 {
		panic(fmt.Sprintf("lockbeat: httpmw.FailOpen(%d) can't be meant: give how many may run "+
			"without the lock at once, or leave it out so that none does", atMost))
	}
	return func(s *settings) { s.failOpen = atMost }
}

// unlocked lets work run without its lock while the store is down. A nil one lets none.
type unlocked struct {
	keeper *renewer.Keeper
	most   int
	atMost func(name string) int // of names that are limits by [AtMost]; nil without

	mu      sync.Mutex
	n       int            // runs
	running map[string]int // by what stores call it
}

func newUnlocked(k *renewer.Keeper, s *settings) *unlocked {
	if s.failOpen == 0 {
		return nil
	}
	return &unlocked{keeper: k, most: s.failOpen, atMost: s.atMost, running: make(map[string]int)}
}

// serve runs do although its lock was refused with err, and reports whether it may do that.
func (u *unlocked) serve(
	w http.ResponseWriter, r *http.Request, name, operation string, err error, do work,
) bool {
	if u == nil || lockmw.RefusalOf(err) != lockmw.RefusalUnavailable {
		return false
	}
	wants := naming.Of(name, u.atMost)
	var outage time.Duration
	for _, one := range wants {
		outage = max(outage, u.keeper.Outage(one.Name))
	}
	if outage == 0 || !u.take(wants) {
		return false
	}
	defer u.give(wants)
	// The token of an outer lock is not this lock's: a resource must
	// be able to tell what is written without this lock.
	ctx := lockmw.WithFence(r.Context(), 0)
	for _, one := range wants {
		u.keeper.Observer().Unlocked(ctx, renewer.Unlocked{
			Name: one.Name, Operation: operation, Outage: outage, Err: err,
		})
	}
	httpguard.Serve(ctx, w, r, do)
	return true
}

// take counts work on all of wants, and reports whether there is room for it.
func (u *unlocked) take(wants []naming.Want) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	full := func(w naming.Want) bool {
		return u.running[w.StoreName()] >= max(w.Limit(), 1) // 1: a lock
	}
	if u.n == u.most || slices.ContainsFunc(wants, full) {
		return false
	}
	u.n++
	for _, w := range wants {
		u.running[w.StoreName()]++
	}
	return true
}

func (u *unlocked) give(wants []naming.Want) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.n--
	for _, w := range wants {
		name := w.StoreName()
		u.running[name]--
		if u.running[name] == 0 {
			delete(u.running, name)
		}
	}
}
