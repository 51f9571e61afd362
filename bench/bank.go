package main

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
)

// bank is what the requests work on, one at a time for each account. It sees when they don't.
type bank struct {
	work     time.Duration // of a transfer
	accounts map[string]*account
	// what an account takes that the bank has not; nil for nothing
	other func(ctx context.Context, id string) error

	overlaps  atomic.Int64 // transfers that began while another on the same account was under way
	unordered atomic.Int64 // transfers whose fencing token was not above that of the one before
}

// account's fields are atomic so that a violation is counted rather
// than a data race: what needs the lock is what lies between.
type account struct {
	underWay atomic.Int32
	balance  atomic.Int64
	fence    atomic.Int64
}

func newBank(accounts int, work time.Duration) *bank {
	b := &bank{work: work, accounts: make(map[string]*account, accounts)}
	for i := range accounts {
		b.accounts[strconv.Itoa(i)] = new(account)
	}
	return b
}

// transfer adds one to an account's balance as a program without
// transactions does: it reads, works, and writes.
func (b *bank) transfer(ctx context.Context, id string) error {
	a := b.accounts[id]
	switch {
	case a != nil:
	case b.other != nil:
		return b.other(ctx, id)
	default:
		return nil
	}
	if a.underWay.Add(1) > 1 {
		b.overlaps.Add(1)
	}
	defer a.underWay.Add(-1)
	if fence := lockmw.Fence(ctx); a.fence.Swap(fence) >= fence {
		b.unordered.Add(1)
	}
	balance := a.balance.Load()
	working := time.NewTimer(b.work)
	defer working.Stop()
	select {
	case <-working.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	a.balance.Store(balance + 1)
	return nil
}

// total is the sum of all balances.
func (b *bank) total() (sum int64) {
	for _, a := range b.accounts {
		sum += a.balance.Load()
	}
	return sum
}
