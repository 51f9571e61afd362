// Package ledger is the account store of the examples. It stands for a database that
// all servers share, and for the work that they do on it: read, think, write. Two
// transfers from one account at once lose money, unless somebody keeps them apart.
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

// What may be wrong with a transfer.
var (
	// ErrOrder means that it can't be carried out: there is no such account, or not enough money.
	ErrOrder = errors.New("can't be transferred")
	// ErrStale means that somebody has written to the account under a later lock.
	ErrStale = errors.New("refused by the ledger")
)

// Order asks for money to be moved.
type Order struct {
	From    string  `json:"-"`
	To      string  `json:"to"`
	Amount  int     `json:"amount"`
	Seconds float64 `json:"seconds"` // to think it over; at most MaxThink
}

// Ledger has the accounts. Its methods may be called concurrently.
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
	leave, err := l.enter(o)
	if err != nil {
		return 0, err
	}
	defer leave()
	balance, _ := l.Balance(o.From)
	if balance < o.Amount {
		return 0, fmt.Errorf("%w: %s has %d, which is less than %d", ErrOrder, o.From, balance,
			o.Amount)
	}
	select {
	case <-time.After(min(time.Duration(o.Seconds*float64(time.Second)), MaxThink)):
		// a look-up elsewhere, a check for fraud
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	left = balance - o.Amount
	return left, l.write(ctx, o, left)
}

// write sets the balance of one account to what was worked out, and
// adds to that of the other, which is one step and needs no lock.
//
// A write that comes with a lower fencing token than the account has seen is
// refused: that stops a process that was paused for so long that it does not
// know yet that its lock is somebody else's. Without a lock the token is 0.
func (l *Ledger) write(ctx context.Context, o Order, left int) error {
	fence := lockmw.Fence(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	from := l.accounts[o.From]
	if fence < from.fence {
		return fmt.Errorf("%w: %s has seen fencing token %d, and this is %d", ErrStale, o.From,
			from.fence, fence)
	}
	from.fence, from.balance = fence, left
	l.accounts[o.To].balance += o.Amount
	return nil
}

// enter checks an order and counts it in.
func (l *Ledger) enter(o Order) (leave func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range []string{o.From, o.To} {
		if l.accounts[id] == nil {
			return nil, fmt.Errorf("%w: there is no account %q", ErrOrder, id)
		}
	}
	if o.Amount <= 0 || o.From == o.To {
		return nil, fmt.Errorf("%w: give a positive amount and two accounts", ErrOrder)
	}
	a := l.accounts[o.From]
	a.inside++
	a.most = max(a.most, a.inside)
	close(l.moved)
	l.moved = make(chan struct{})
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.inside--
	}, nil
}
