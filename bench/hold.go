package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

// toHold is what a holder is asked: to take leases first, and then to hold them
// for a time.
type toHold struct {
	Leases int
	Span   time.Duration
}

// held is how it held them.
type held struct {
	CPU        time.Duration
	Heap       int64  // that is live, above what it was without a lease
	Sys        uint64 // bytes that the process has from the system
	Goroutines int
	Lost       int
}

// holder takes leases and keeps them.
type holder struct {
	take func(ctx context.Context, name string) (lost func() bool, err error)
	lost []func() bool
	bare int64 // live heap without a lease
}

func newHolder(s setup) (handle, error) {
	option := rueidis.ClientOption{InitAddress: []string{s.Addr}, ForceSingleClient: true}
	h := new(holder)
	switch s.Who {
	case lockbeat:
		keeper, _, err := newKeeper(option, ttl)
		if err != nil {
			return nil, err
		}
		h.take = func(ctx context.Context, name string) (func() bool, error) {
			l, err := keeper.Acquire(ctx, renewer.Request{Name: name})
			return func() bool { return leaseLost(l) }, err
		}
	case locker:
		l, err := newLocker(option)
		if err != nil {
			return nil, err
		}
		h.take = func(ctx context.Context, name string) (func() bool, error) {
			mine, _, err := l.TryWithContext(ctx, name)
			return func() bool { return mine.Err() != nil }, err
		}
	default:
		return nil, fmt.Errorf("%s does not renew by itself", s.Who)
	}
	h.bare = liveHeap()
	return func(ctx context.Context, request json.RawMessage) (any, error) {
		var to toHold
		if err := json.Unmarshal(request, &to); err != nil {
			return nil, err
		}
		if to.Leases > 0 {
			return nil, h.takeAll(ctx, to.Leases)
		}
		return h.hold(to.Span), nil
	}, nil
}

func leaseLost(l *renewer.Lease) bool { return !l.Valid() || l.Err() != nil }

func (h *holder) takeAll(ctx context.Context, leases int) error {
	h.lost = make([]func() bool, leases)
	var next atomic.Int64
	const acquirers = 64
	return together(acquirers, func(int) (err error) {
		for i := int(next.Add(1)) - 1; i < leases && err == nil; i = int(next.Add(1)) - 1 {
			h.lost[i], err = h.take(ctx, fmt.Sprintf("order:%06d", i))
		}
		return err
	})
}

func (h *holder) hold(span time.Duration) (k held) {
	used := cpuTime()
	time.Sleep(span)
	k.CPU = cpuTime() - used
	k.Goroutines = runtime.NumGoroutine()
	for _, lost := range h.lost {
		if lost() {
			k.Lost++
		}
	}
	k.Heap = liveHeap() - h.bare
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	k.Sys = m.Sys
	return k
}

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it fits
}

// holdTable names the table of leases that are held.
func holdTable(leases int) string {
	return fmt.Sprintf("Hold %d locks, TTL %v", leases, ttl)
}

// The columns by which Lockbeat is judged.
const (
	holdCPU    = "client CPU, ms/s"
	leaseBytes = "bytes a lock"
)

// hold holds locks in a process of its own, on a server of its own, with what
// renews by itself.
func hold(ctx context.Context, o options, f *figures) error {
	span := ttl
	if o.short {
		span = 200 * time.Millisecond
	}
	for _, leases := range o.leases {
		for _, who := range o.contestants(lockbeat, locker) {
			err := f.inTime(ctx, o, holdTable(leases), who, func(ctx context.Context) error {
				return f.hold(ctx, who, leases, span)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *figures) hold(ctx context.Context, who string, leases int, span time.Duration) error {
	s, err := openServer()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	c, err := startChild(ctx, setup{holding, who, s.Addr(), ""})
	if err != nil {
		return err
	}
	defer c.end()
	if err := c.ask(toHold{Leases: leases}, nil); err != nil {
		return err
	}
	before, err := s.usage()
	if err != nil {
		return err
	}
	var k held
	if err := c.ask(toHold{Span: span}, &k); err != nil {
		return err
	}
	after, err := s.usage()
	if err != nil {
		return err
	}
	table := holdTable(leases)
	f.add(table, who, holdCPU, millis(k.CPU)/span.Seconds())
	f.add(table, who, "Redis CPU, ms/s", millis(after.since(before).cpu)/span.Seconds())
	f.add(table, who, leaseBytes, float64(k.Heap)/float64(leases))
	f.add(table, who, "memory of the process, MB", float64(k.Sys>>20))
	f.add(table, who, "goroutines", float64(k.Goroutines))
	if k.Lost > 0 {
		return errors.New("a lock was lost")
	}
	return nil
}
