package ticks

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// Books are those of the jobs of one process. Its methods may be called concurrently.
type Books struct {
	keeper *renewer.Keeper
	kind   string
	grace  time.Duration

	mu    sync.Mutex
	names map[string]bool
}

var errNoKeeper = fmt.Errorf("%w: it needs a keeper: renewer.New", renewer.ErrConfig)

// NewBooks returns the books of jobs of a kind, whose locks are k's. grace is that of jobs without
// one of their own; 0: see [NewGrace]. The error names each fault.
func NewBooks(k *renewer.Keeper, kind string, grace time.Duration) (*Books, error) {
	kept := errNoKeeper
	if k != nil {
		kept = k.CheckRecords()
	}
	_, err := NewGrace(grace, 0)
	if err := errors.Join(kept, err); err != nil {
		return nil, err
	}
	return &Books{keeper: k, kind: kind, grace: grace, names: make(map[string]bool)}, nil
}

// New returns the book of a job of this name, which [Books.Open] has not checked yet.
func (bs *Books) New(name string) *Book {
	b := NewBook(bs.keeper, bs.kind, name)
	b.Grace = bs.grace
	return b
}

// Open checks a job's book, and that its name is free here. shortest is the shortest time between
// two of the job's ticks; 0 if that is not known. It sets [Book.Grace], if that is 0.
func (bs *Books) Open(b *Book, shortest time.Duration) (err error) {
	if err := renewer.CheckName(b.key); err != nil {
		return err
	}
	if err := b.MaxHold.Check(bs.keeper); err != nil {
		return err
	}
	if b.Grace, err = NewGrace(b.Grace, shortest); err != nil {
		return err
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.names[b.Name] {
		return fmt.Errorf("%w: this process has a job of this name already, and the two would "+
			"take each other's ticks: give each a name of its own, or Forget the first",
			renewer.ErrConfig)
	}
	bs.names[b.Name] = true
	return nil
}

// Forget makes a name free.
func (bs *Books) Forget(name string) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	delete(bs.names, name)
}
