package redisstore

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// abandoned has the claims whose callers have left while the claim was on its
// way together with others. Such a claim may be sent only later. A release
// must not overtake the claim that it undoes: the key would be left for its
// TTL. So a release first waits for the end of such claims of its owner.
type abandoned struct {
	some atomic.Bool // whether there are any, so that a release need not take the mutex

	mu    sync.Mutex
	until map[string][]<-chan struct{} // by owner token: closed once the server has had the claim
}

func (a *abandoned) add(owner string, until <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.until == nil {
		a.until = make(map[string][]<-chan struct{})
	}
	a.until[owner] = append(a.until[owner], until)
	a.some.Store(true)
}

func (a *abandoned) remove(owner string, until <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := slices.DeleteFunc(a.until[owner], func(one <-chan struct{}) bool {
		return one == until
	})
	if len(left) > 0 {
		a.until[owner] = left
		return
	}
	delete(a.until, owner)
	a.some.Store(len(a.until) > 0)
}

// settle waits until the claims that an owner has abandoned are
// answered or given up, while ctx lives.
func (a *abandoned) settle(ctx context.Context, owner string) error {
	if !a.some.Load() {
		return nil
	}
	a.mu.Lock()
	pending := slices.Clone(a.until[owner])
	a.mu.Unlock()
	for _, until := range pending {
		select {
		case <-until:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
