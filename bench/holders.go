package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// The contestants, by the names that the tables show.
const (
	lockbeat = "Lockbeat"
	floor    = "raw rueidis"
	peer     = "rueidislock"
)

// holder takes leases and keeps them.
type holder interface {
	// acquire takes the lease on a name; number is its place in 0..n-1. Concurrently.
	acquire(ctx context.Context, name string, number int) error
	// lost counts the leases that were taken and are not held any more.
	lost() int
	// packages are those whose goroutines are the holder's own.
	packages() []string
}

func newHolder(ctx context.Context, s childSpec) (holder, error) {
	switch s.Who {
	case lockbeat:
		return newKeeperHolder(ctx, s)
	case floor:
		return newRawHolder(ctx, s)
	case peer:
		return newPeerHolder(s)
	default:
		return newUserHolder(s)
	}
}

// contexts are how an operation sees its lock: they end when it is lost.
type contexts []context.Context

func (c contexts) lost() (n int) {
	for _, ctx := range c {
		if ctx != nil && ctx.Err() != nil {
			n++
		}
	}
	return n
}

// keeperHolder is Lockbeat. It keeps leases, of which it asks in the
// end whether they hold: one makes a context when it is asked for it.
type keeperHolder struct {
	keeper *renewer.Keeper
	//nolint:containedctx // all leases', which nothing ends: requests are bounded by the keeper
	life   context.Context
	leases []*renewer.Lease
}

func newKeeper(addr string, ttl time.Duration) (*renewer.Keeper, error) {
	keeper, _, err := connectKeeper(addr, ttl)
	return keeper, err
}

// connectKeeper returns the keeper's client too, for those who close it.
func connectKeeper(addr string, ttl time.Duration) (*renewer.Keeper, rueidis.Client, error) {
	return connectKeeperOn(deployment{addr: addr}, ttl)
}

func connectKeeperOn(d deployment, ttl time.Duration) (*renewer.Keeper, rueidis.Client, error) {
	option, err := clientOption(d, ttl)
	if err != nil {
		return nil, nil, err
	}
	client, err := rueidis.NewClient(option)
	// A machine on which many processes start at once may need more than one attempt.
	for late := time.Now().Add(5 * time.Second); err != nil && time.Now().Before(late); {
		<-time.After(50 * time.Millisecond)
		client, err = rueidis.NewClient(option)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", d.addr, err)
	}
	store, err := redisstore.New(client, redisstore.WriteTimeout(option.ConnWriteTimeout))
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	keeper, err := renewer.New(store, renewer.Config{TTL: ttl})
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return keeper, client, nil
}

func newKeeperHolder(ctx context.Context, s childSpec) (*keeperHolder, error) {
	keeper, err := newKeeper(s.Addr, s.TTL)
	if err != nil {
		return nil, err
	}
	return &keeperHolder{keeper, context.WithoutCancel(ctx), make([]*renewer.Lease, s.Leases)}, nil
}

func (h *keeperHolder) acquire(_ context.Context, name string, number int) error {
	lease, err := h.keeper.Acquire(h.life, name)
	h.leases[number] = lease
	return err
}

// lost counts leases that were had and do not hold any more.
func (h *keeperHolder) lost() (n int) {
	for _, l := range h.leases {
		if l != nil && (!l.Valid() || l.Err() != nil) {
			n++
		}
	}
	return n
}

func (h *keeperHolder) packages() []string {
	return []string{
		"github.com/lockbeat/lockbeat/renewer",
		"github.com/lockbeat/lockbeat/renewer/redisstore",
	}
}

// peerHolder is rueidislock with the settings that suit it best.
type peerHolder struct {
	locker rueidislock.Locker
	contexts
	cancels []context.CancelFunc // kept, as their users do
}

func newLocker(d deployment, ttl time.Duration) (rueidislock.Locker, error) {
	return rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   peerOption(d),
		KeyValidity:    ttl,
		KeyMajority:    1,
		NoLoopTracking: true,
		TryNextAfter:   time.Second,
	})
}

// peerOption is how other libraries on rueidis connect.
func peerOption(d deployment) rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress: []string{d.addr}, ForceSingleClient: true, MaxFlushDelay: d.flushDelay,
	}
}

func newPeerHolder(s childSpec) (*peerHolder, error) {
	locker, err := newLocker(deployment{addr: s.Addr}, s.TTL)
	if err != nil {
		return nil, err
	}
	return &peerHolder{locker, make(contexts, s.Leases), make([]context.CancelFunc, s.Leases)}, nil
}

func (h *peerHolder) acquire(ctx context.Context, name string, number int) error {
	held, cancel, err := h.locker.TryWithContext(ctx, name)
	if err != nil {
		return err
	}
	//nolint:fatcontext // a place for each lease; none is nested in another
	h.contexts[number], h.cancels[number] = held, cancel
	return nil
}

func (h *peerHolder) packages() []string { return []string{"github.com/redis/rueidis/rueidislock"} }

// rawHolder renews all leases in turn, from one goroutine.
type rawHolder struct {
	raw   *raw
	locks []rawLock
	taken atomic.Int64
	gone  atomic.Int64
	start sync.Once
	ttl   time.Duration
}

func newRawHolder(ctx context.Context, s childSpec) (*rawHolder, error) {
	r, err := newRaw(ctx, s.Addr, s.Way, s.TTL)
	if err != nil {
		return nil, err
	}
	h := &rawHolder{raw: r, locks: make([]rawLock, s.Leases), ttl: s.TTL}
	for i := range h.locks {
		h.locks[i] = r.lock(leaseName(i), i)
	}
	return h, nil
}

func (h *rawHolder) acquire(ctx context.Context, _ string, number int) error {
	if err := h.raw.acquire(ctx, &h.locks[number]); err != nil {
		return err
	}
	h.taken.Add(1)
	h.start.Do(func() { go h.beat(ctx) })
	return nil
}

// beat renews each lease every third of its TTL, the first ones while
// the last are still being acquired: it begins with those and takes
// them in the order in which they were acquired, give or take a few.
func (h *rawHolder) beat(ctx context.Context) {
	const tick = 10 * time.Millisecond
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	share := len(h.locks)*int(tick)/int(h.ttl/3) + 1
	share += renewMost - 1 - (share-1)%renewMost // whole scripts
	next := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		most := int(h.taken.Load())
		if next >= most {
			next = 0
		}
		part := h.locks[next:min(next+share, most)]
		lost, err := h.raw.renew(ctx, part)
		if err != nil {
			lost = len(part)
		}
		if most == len(h.locks) { // those behind may not have been acquired before
			h.gone.Add(int64(lost))
		}
		next += len(part)
	}
}

func (h *rawHolder) lost() int          { return int(h.gone.Load()) }
func (h *rawHolder) packages() []string { return []string{"main.(*rawHolder)"} }

// acquireAll takes all leases from a number of goroutines. One that
// can't be had is tried three times.
func acquireAll(ctx context.Context, h holder, leases, goroutines int) (failed int, err error) {
	var next, failures atomic.Int64
	var last atomic.Pointer[error]
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < leases; i = int(next.Add(1)) - 1 {
				name, err := leaseName(i), errors.New("never tried")
				for try := 0; try < 3 && err != nil; try++ {
					err = h.acquire(ctx, name, i)
				}
				if err != nil {
					failures.Add(1)
					last.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if p := last.Load(); p != nil {
		err = *p
	}
	return int(failures.Load()), err
}

func leaseName(i int) string { return fmt.Sprintf("order:%06d", i) }
