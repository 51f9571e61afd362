// Package ledger is the account store of the examples. It stands for a database that all servers
// share, and for the work that they do on it: read, think, write. Two transfers from one account at
// once lose money, unless a lock keeps them apart. The methods may be called concurrently.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
)

// MaxThink bounds how long a transfer may be thought over.
const MaxThink = 10 * time.Second

var (
	// ErrOrder means that a transfer can't be carried out: no such account, or not enough money.
	ErrOrder = errors.New("can't be transferred")
	// ErrStale means that the account has been written to under a later lock.
	ErrStale = errors.New("refused by the ledger")
)

// Order asks for money to be moved.
type Order struct {
	From    string  `json:"-"`
	To      string  `json:"to"`
	Amount  int     `json:"amount"`
	Seconds float64 `json:"seconds"` // to think it over; at most MaxThink
}

// Ledger has the accounts.
type Ledger struct {
	mu       sync.Mutex
	accounts map[string]*account
	moved    chan struct{} // closed, and made anew, when a transfer begins
}

type account struct {
	balance int
	fence   int64 // the highest fencing token that has come with a write
	inside  int   // transfers from the account at work
	most    int   // of those at once
}

// New opens accounts with these balances.
func New(balances map[string]int) *Ledger {
	l := &Ledger{accounts: make(map[string]*account, len(balances)), moved: make(chan struct{})}
	for id, balance := range balances {
		l.accounts[id] = &account{balance: balance}
	}
	return l
}

// Transfer carries out an order and returns what is left on the account. It knows nothing of
// locks. When ctx ends before it has written, it returns why, and nothing has been moved.
func (l *Ledger) Transfer(ctx context.Context, o Order) (left int, err error) {
	a, err := l.enter(o)
	if err != nil {
		return 0, err
	}
	defer l.leave(a)
	balance, _ := l.Balance(o.From)
	if balance < o.Amount {
		return 0, fmt.Errorf("%w: %s has %d, less than %d", ErrOrder, o.From, balance, o.Amount)
	}
	select {
	case <-time.After(min(time.Duration(o.Seconds*float64(time.Second)), MaxThink)):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return balance - o.Amount, l.write(ctx, a, o, balance-o.Amount)
}

// write sets the balance of one account to what was worked out, and
// adds to that of the other, which is one step and needs no lock.
//
// A write with a lower fencing token than the account has seen is
// refused: that stops a process that was paused for so long that it does
// not know yet that it has lost its lock. Without a lock the token is 0.
func (l *Ledger) write(ctx context.Context, a *account, o Order, left int) error {
	fence := lockmw.Fence(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if fence < a.fence {
		return fmt.Errorf("%w: %s has seen fencing token %d, and this is %d", ErrStale, o.From,
			a.fence, fence)
	}
	a.fence, a.balance = fence, left
	l.accounts[o.To].balance += o.Amount
	return nil
}

// enter checks an order and counts it in, until leave.
func (l *Ledger) enter(o Order) (*account, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.accounts[o.From]
	if a == nil || l.accounts[o.To] == nil || o.Amount <= 0 || o.From == o.To {
		return nil, fmt.Errorf("%w: give a positive amount and two accounts", ErrOrder)
	}
	a.inside++
	a.most = max(a.most, a.inside)
	close(l.moved)
	l.moved = make(chan struct{})
	return a, nil
}

func (l *Ledger) leave(a *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.inside--
}

// Balance returns what is on an account, or [ErrOrder] if there is none.
func (l *Ledger) Balance(id string) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a := l.accounts[id]; a != nil {
		return a.balance, nil
	}
	return 0, fmt.Errorf("%w: there is no account %q", ErrOrder, id)
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
