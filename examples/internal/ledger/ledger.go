// Package ledger is the account store of the examples. It stands for a database
// that all servers share, and for the work that they do on it: read, think,
// write. Two transfers from one account at once lose money, unless a lock keeps
// them apart. The methods may be called concurrently.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
)

var (
	// ErrOrder means that a transfer can't be carried out: no such account, or
	// not enough money.
	ErrOrder = errors.New("can't be transferred")
	// ErrStale means that the account has been written to under a later lock.
	ErrStale = errors.New("refused by the ledger")
)

// Order asks for money to be moved.
type Order struct {
	From    string  `json:"-"`
	To      string  `json:"to"`
	Amount  int     `json:"amount"`
	Seconds float64 `json:"seconds"` // to think it over
}

// Ledger has the accounts.
type Ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
}

type account struct {
	balance int
	fence   int64 // the highest fencing token that has come with a write
	inside  int   // transfers from the account at work
	most    int   // of those at once
}

// New opens accounts with these balances.
func New(balances map[string]int) *Ledger {
	l := &Ledger{accounts: make(map[string]*account, len(balances))}
	for id, balance := range balances {
		l.accounts[id] = &account{balance: balance}
	}
	return l
}

// Transfer carries out an order and returns what is left on the account. It
// knows nothing of locks, but for the fencing token. When ctx ends before it
// has written, it returns why, and nothing has been moved.
func (l *Ledger) Transfer(ctx context.Context, o Order) (left int, err error) {
	a, balance, err := l.begin(o)
	if err != nil {
		return 0, err
	}
	defer l.end(a)
	select {
	case <-time.After(time.Duration(o.Seconds * float64(time.Second))):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// A lower token than the account has seen is that of a process that was
	// paused for so long that it does not know yet that it has lost its lock.
	// Without a lock the token is 0.
	fence := lockmw.Fence(ctx)
	if fence < a.fence {
		return 0, fmt.Errorf("%w: token %d, after %d", ErrStale, fence, a.fence)
	}
	a.fence, a.balance = fence, balance-o.Amount
	l.accounts[o.To].balance += o.Amount // one step, which needs no lock
	return a.balance, nil
}

// begin checks an order, reads the balance, and counts the order in, until end.
func (l *Ledger) begin(o Order) (a *account, balance int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a = l.accounts[o.From]
	if a == nil || l.accounts[o.To] == nil || o.Amount <= 0 || o.From == o.To {
		return nil, 0, fmt.Errorf("%w: give a positive amount and two accounts", ErrOrder)
	}
	if a.balance < o.Amount {
		return nil, 0, fmt.Errorf("%w: %s has less than %d", ErrOrder, o.From, o.Amount)
	}
	a.inside++
	a.most = max(a.most, a.inside)
	return a, a.balance, nil
}

func (l *Ledger) end(a *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.inside--
}

// Account returns what is on an account, and how many transfers from it are at
// work and were at most at once.
func (l *Ledger) Account(id string) (balance, inside, most int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[id]
	return a.balance, a.inside, a.most
}

// Await waits until a transfer from an account is at work, or until ctx ends.
func (l *Ledger) Await(ctx context.Context, id string) error {
	for {
		if _, inside, _ := l.Account(id); inside > 0 {
			return nil
		}
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
