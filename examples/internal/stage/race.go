package stage

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/ledger"
)

const (
	// Racers is how many transfers a race makes at once.
	Racers = 40
	// Funds is what there is on an account before a race.
	Funds = 1000
)

// Lane is one half of a race: transfers of 1 from one account, by one route.
type Lane struct {
	Account string
	// what does the same in a shell, for each of two servers
	Commands [2]string
	// makes one transfer; it is called concurrently
	Send func(ctx context.Context, server int) (ok bool)
}

// Races makes many transfers at once, without the lock and with it.
func (s *Stage) Races(ctx context.Context, l *ledger.Ledger, without, with Lane) error {
	s.Title("5. %d transfers of 1 at once from an account with %d, by the same handler without "+
		"the lock", Racers, Funds)
	ok, left := s.race(ctx, l, without)
	s.Claim("race without the lock: the balance is wrong",
		fmt.Sprintf("%d; %d would be right", left, Funds-ok), left != Funds-ok)

	s.Title("6. The same with the lock")
	ok, left = s.race(ctx, l, with)
	s.Claim("race with the lock: the balance is right",
		fmt.Sprintf("%d, with %d of %d carried out", left, ok, Racers),
		left == Funds-ok && ok == Racers)
	most := [2]int{l.Most(without.Account), l.Most(with.Account)}
	s.Claim("most transfers at once: without, and with the lock",
		fmt.Sprintf("%d, and %d", most[0], most[1]), most[0] > 1 && most[1] == 1)
	return context.Cause(ctx)
}

// race makes transfers on both servers at once. It returns how many
// were carried out, and what is left.
func (s *Stage) race(ctx context.Context, l *ledger.Ledger, lane Lane) (ok, left int) {
	s.Command("", fmt.Sprintf("for i in $(seq %d); do\n  %s &\n  %s &\ndone; wait", Racers/2,
		lane.Commands[0], lane.Commands[1]))
	total, begun := l.Total(), time.Now()
	var all sync.WaitGroup
	var good atomic.Int64
	for i := range Racers {
		all.Go(func() {
			if lane.Send(ctx, i%2) {
				good.Add(1)
			}
		})
	}
	all.Wait()
	ok = int(good.Load())
	left, _ = l.Balance(lane.Account)
	s.Answer("", fmt.Sprintf("%d of %d carried out, so that %d should be left", ok, Racers,
		Funds-ok), time.Since(begun),
		fmt.Sprintf("%d are left; the bank's books are wrong by %d", left, l.Total()-total))
	return ok, left
}
