package ledger

import (
	"context"
	"fmt"
)

// Balance returns what is on an account, or [ErrOrder] if there is none.
func (l *Ledger) Balance(id string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[id]
	if a == nil {
		return 0, fmt.Errorf("%w: there is no account %q", ErrOrder, id)
	}
	return a.balance, nil
}

// Total is what is on all accounts together. Transfers leave it as it is, unless they overlap.
func (l *Ledger) Total() (sum int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.accounts {
		sum += a.balance
	}
	return sum
}

// Most is how many transfers from an account there have been at once.
func (l *Ledger) Most(id string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accounts[id].most
}

// Await waits until a transfer from an account is at work, or until ctx ends.
func (l *Ledger) Await(ctx context.Context, id string) error {
	for {
		l.mu.Lock()
		inside, moved := l.accounts[id].inside > 0, l.moved
		l.mu.Unlock()
		if inside {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
