package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/stage"
)

const (
	nodes     = 4
	workers   = 5   // of each
	transfers = 400 // of all together
	opening   = 100
)

var accounts = []string{"ann", "bob", "eve"}

// tell tells the story.
func tell(ctx context.Context, s *stage.Stage) error {
	s.Print("%d nodes make %d transfers of 1 between %s, from any to any, on one Redis (%s).",
		nodes, transfers, strings.Join(accounts, ", "), s.Where())
	s.Print("Each has %d, %d in all, and no transfer changes the sum.", opening,
		opening*len(accounts))

	s.Title("Without locks")
	b := open()
	_, err := crowd(ctx, func(int) (mover, error) { return b.transfer, nil })
	if err != nil {
		return err
	}
	b.show(s)
	s.Claim("without locks: transfers undo each other's changes", fmt.Sprint(b.undone()),
		b.undone() > 0)

	s.Title("Under the locks of both accounts")
	b = open()
	begun := time.Now()
	done, err := crowd(ctx, func(node int) (mover, error) {
		k, err := s.Keeper(fmt.Sprint("node-", node+1))
		if err != nil {
			return nil, err
		}
		return b.exclusive(k), nil
	})
	took := time.Since(begun)
	sum := b.show(s)
	s.Print("  in %s; %d of the pairs were asked for as (a, b) by one and as (b, a) by another",
		stage.Span(took), len(accounts)*(len(accounts)-1)/2)
	s.Claim("with locks: none is stuck, all are carried out",
		fmt.Sprintf("%d of %d", done, transfers), done == transfers)
	s.Claim("with locks: changes undone", fmt.Sprint(b.undone()), b.undone() == 0)
	s.Claim("with locks: the sum is what it was", fmt.Sprint(sum), sum == opening*len(accounts))
	s.Claim("with locks: most transfers at once on an account", fmt.Sprint(b.most()), b.most() == 1)
	return err
}

func open() bank {
	b := make(bank)
	for _, name := range accounts {
		b[name] = new(account)
		b[name].balance.Store(opening)
	}
	return b
}

// show prints the balances, and returns their sum.
func (b bank) show(s *stage.Stage) (sum int) {
	var all []string
	for _, name := range accounts {
		n := int(b[name].balance.Load())
		sum += n
		all = append(all, fmt.Sprint(name, " ", n))
	}
	s.Print("  %s; %d in all", strings.Join(all, ", "), sum)
	return sum
}

// undone is how many changes were lost, whether or not the sum tells.
func (b bank) undone() (n int64) {
	for _, a := range b {
		n += a.undone.Load()
	}
	return n
}

// most is how many transfers were at work on one account at once.
func (b bank) most() (n int64) {
	for _, a := range b {
		n = max(n, a.most.Load())
	}
	return n
}

type mover = func(context.Context, order) (struct{}, error)

// crowd makes the transfers, in random order, by all nodes at once.
// It returns how many were carried out, and why others were not.
func crowd(ctx context.Context, node func(int) (mover, error)) (int, error) {
	var left, done atomic.Int64
	left.Store(transfers)
	faults := make(chan error, nodes*workers)
	var wg sync.WaitGroup
	for n := range nodes {
		move, err := node(n)
		if err != nil {
			return 0, err
		}
		for range workers {
			wg.Go(func() {
				for left.Add(-1) >= 0 {
					pair := rand.Perm(len(accounts)) //nolint:gosec // a crowd, not a secret
					if _, err := move(ctx,
						order{accounts[pair[0]], accounts[pair[1]]}); err != nil {
						faults <- err
						return
					}
					done.Add(1)
				}
			})
		}
	}
	wg.Wait()
	close(faults)
	var all []error
	for err := range faults {
		all = append(all, err)
	}
	return int(done.Load()), errors.Join(all...)
}
