package main

import (
	"fmt"
	"strings"
	"sync/atomic"
)

const opening = 100 // on each account

var accounts = []string{"ann", "bob", "eve"}

// bank stands for a database that the nodes share.
type bank map[string]*account

type account struct {
	balance atomic.Int64
	undone  atomic.Int64 // changes that another transfer wrote over
	inside  atomic.Int64 // transfers at work on it
	most    atomic.Int64 // of those at once
}

func open() bank {
	b := make(bank)
	for _, name := range accounts {
		b[name] = new(account)
		b[name].balance.Store(opening)
	}
	return b
}

// write sets the balance, and counts what it undoes: a change since it was seen.
func (a *account) write(seen, balance int64) {
	if a.balance.Swap(balance) != seen {
		a.undone.Add(1)
	}
}

// enter counts who is at work on an account, until the function that it returns is called.
func (a *account) enter() (leave func()) {
	n := a.inside.Add(1)
	for most := a.most.Load(); n > most && !a.most.CompareAndSwap(most, n); {
		most = a.most.Load()
	}
	return func() { a.inside.Add(-1) }
}

// count returns how many changes were undone, how many transfers were at work on one account at
// once, and what is on all accounts together.
func (b bank) count() (undone, most, sum int64) {
	for _, a := range b {
		undone += a.undone.Load()
		most = max(most, a.most.Load())
		sum += a.balance.Load()
	}
	return undone, most, sum
}

func (b bank) String() string {
	var all []string
	for _, name := range accounts {
		all = append(all, fmt.Sprint(name, " ", b[name].balance.Load()))
	}
	_, _, sum := b.count()
	return fmt.Sprintf("%s; %d in all", strings.Join(all, ", "), sum)
}
