package fence

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/lockbeat/lockbeat/lockmw/internal/intx"
	"github.com/lockbeat/lockbeat/lockmw/internal/scope"
	"github.com/lockbeat/lockbeat/lockmw/internal/sqlfault"
	"github.com/lockbeat/lockbeat/renewer"
)

// Guard fences the transactions of one database, for all of its connections.
type Guard struct {
	Dialect Dialect
	Counts  func(name string) bool // whether a lock counts; nil: all do
	Require bool                   // what may write is refused without a lock
	Refuse  bool                   // so is, under a lock, what may write outside of a transaction
	Begin   Beginner               // nil: by the driver, with the check behind it

	mu      sync.Mutex
	raised  map[string]int64         // the tokens that this process has raised
	raising map[string]chan struct{} // raises under way, by the first lock's name

	Engine                    atomic.Bool // the table's is known to have locks on rows
	slot, outside, lockInside sync.Once   // what is told to the observer once
	toldOutside               atomic.Bool
}

// Beginner begins a transaction with its fence in one round trip. ok is false
// if it does not know the driver's connection, or leaves it to the driver to
// refuse the options.
type Beginner func(
	ctx context.Context, c driver.Conn, o driver.TxOptions, f *Fence,
) (tx driver.Tx, ok bool, err error)

// mostRaised bounds what a process remembers. What it forgets is raised again,
// which changes nothing.
const mostRaised = 4096

// Of is the fence of the locks that ctx runs under, nil without. It is an error
// if a transaction that may write needs one.
func (g *Guard) Of(ctx context.Context) (*Fence, error) {
	f, slot := of(ctx, g.Dialect, g.Counts)
	if slot != nil {
		g.slot.Do(func() {
			tell(slot.Keeper, slot.Name(), "a slot of a limit carries no fence, since several "+
				"have one at once. Take a lock beside it, or leave its name out by fencedb.Only")
		})
	}
	if f == nil && g.Require {
		return nil, &Error{"this database is for locked code alone (fencedb.Require), and the " +
			"context runs under no lock that counts: write under lockmw.Run, Do or an adapter, " +
			"with the context that the function is given", renewer.ErrConfig, scope.ErrNotHeld}
	}
	return f, nil
}

// OfTx is the fence of the locks that a transaction is begun under, and the one
// that it has to carry: none if it is read-only.
func (g *Guard) OfTx(ctx context.Context, readOnly bool) (f, carried *Fence, err error) {
	f, err = g.Of(ctx)
	switch {
	case !readOnly:
		return f, f, err
	case err != nil: // under no lock, what may write is refused all the same
		f = new(Fence)
	}
	return f, nil, nil
}

// Begun begins a transaction with the fence f. raise calls Raise; begin begins
// one and runs f.Check in it, and undoes it if it fails.
func (g *Guard) Begun(ctx context.Context, f *Fence, raise, begin func() error) (err error) {
	for range 4 {
		if !g.isRaised(f) {
			if err := f.Err(ctx, raise()); err != nil {
				return err
			}
		}
		err = f.Err(ctx, begin())
		switch {
		case errors.Is(err, errRaise):
			g.note(f, false)
		case sqlfault.Of(err) == sqlfault.Conflict && ctx.Err() == nil:
		default:
			return err
		}
	}
	if errors.Is(err, errRaise) {
		return g.Dialect.Table("the rows of the fence do not stay")
	}
	return err
}

// Raise raises the tokens of f unless they are raised already. There is one
// raise of a lock at a time: several of one holder would wait for each other,
// and for its transactions. raise runs f.Raise outside of a transaction, on a
// connection that the caller has already: if it had to wait for one, those who
// have all connections could be waiting for it.
func (g *Guard) Raise(ctx context.Context, f *Fence, raise func() error) error {
	for !g.isRaised(f) {
		g.mu.Lock()
		key := g.low(f)
		other, busy := g.raising[key]
		over := make(chan struct{})
		if !busy {
			if g.raising == nil {
				g.raising = make(map[string]chan struct{})
			}
			g.raising[key] = over
		}
		g.mu.Unlock()
		if busy {
			select {
			case <-other:
			case <-ctx.Done():
				return ctx.Err()
			}
			continue
		}
		defer func() { // also after a panic of the driver
			g.mu.Lock()
			delete(g.raising, key)
			g.mu.Unlock()
			close(over)
		}()
		err := raise()
		if err == nil {
			g.note(f, true)
		}
		return err
	}
	return nil
}

func (g *Guard) isRaised(f *Fence) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.low(f) == ""
}

// low is the first lock of f whose token is not raised. Under mu.
func (g *Guard) low(f *Fence) string {
	for _, l := range f.Locks {
		if g.raised[l.Name] != l.Token {
			return l.Name
		}
	}
	return ""
}

// First raises the fence that ctx runs under, if it was not, before something
// that carries none. What a lease reads, no former holder may write any more.
// Where it can't be raised at all, as at a replica or by a former holder, what
// writes first says so.
func (g *Guard) First(ctx context.Context, raise func(f *Fence) error) error {
	f, _ := of(ctx, g.Dialect, g.Counts)
	if f == nil || g.isRaised(f) {
		return nil
	}
	err := raise(f)
	if ctx.Err() == nil && (sqlfault.Of(err).Permanent() || errors.Is(err, renewer.ErrLost)) {
		g.note(f, true) // who writes finds that it is not
		return nil
	}
	return f.Err(ctx, err)
}

// note keeps whether f is raised.
func (g *Guard) note(f *Fence, raised bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.raised == nil || len(g.raised) >= mostRaised {
		g.raised = make(map[string]int64)
	}
	for _, l := range f.Locks {
		if raised {
			g.raised[l.Name] = l.Token
		} else {
			delete(g.raised, l.Name)
		}
	}
}

// Open notes that a transaction is open in the operation that ctx is of, until
// closed is called: a lock that is waited for meanwhile is told to the
// observer.
func (g *Guard) Open(ctx context.Context) (closed func()) {
	for held := range scope.Leases(ctx) {
		return intx.Open(held.Lease, &g.lockInside)
	}
	return func() {}
}

// Inside tells the observer, once, of a statement under locks that is in a
// transaction which does not carry them: its fence is f, or none.
func (g *Guard) Inside(ctx context.Context, f *Fence) {
	if g.toldOutside.Load() {
		return
	}
	now, _ := of(ctx, g.Dialect, g.Counts)
	if now == nil || f.covers(now) {
		return
	}
	g.outside.Do(func() {
		g.toldOutside.Store(true)
		l := now.Locks[0]
		tell(l.keeper, l.Name, "a statement under this lock is in a transaction that was begun "+
			"outside of it, and carries no fence of it; and the lock is free before that is "+
			"committed. Take the lock first, then begin, with the context that runs under it")
	})
}

func tell(k *renewer.Keeper, name, what string) {
	k.Observer().Fault(renewer.Fault{
		Doing: "fence a transaction", Name: name,
		Err: fmt.Errorf("%w: %s", renewer.ErrConfig, what),
	})
}
