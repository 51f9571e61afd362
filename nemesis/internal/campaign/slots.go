package campaign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
	"github.com/lockbeat/lockbeat/renewer"
)

// awaitSlots returns nil once as many slots of each limit can be had at once as there are, and no
// more: all workers have ended, so that what the dead had must be free when their TTL is over.
func (s *stage) awaitSlots(ctx context.Context, ttl, patience time.Duration) (err error) {
	if len(s.limits) == 0 {
		return nil
	}
	links, err := s.deployment.Link()
	if err != nil {
		return err
	}
	defer links.Close()
	target, err := s.deployment.Spec(links)
	if err != nil {
		return err
	}
	conn, err := target.Connect(ttl)
	if err != nil {
		return err
	}
	defer conn.Close()
	keeper, err := renewer.New(conn.Store, worker.Config(ttl))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keeper.Shutdown(ctx)) }()
	for name, n := range s.limits {
		if err := takeAll(ctx, keeper, name, n, patience); err != nil {
			return fmt.Errorf("%w; %s", err, s.standing(name))
		}
	}
	return nil
}

// takeAll has all n slots of a limit at once, is refused one more, and frees them.
func takeAll(
	ctx context.Context, k *renewer.Keeper, name string, n int, patience time.Duration,
) error {
	limit := func() int { return n }
	begun := time.Now()
	for i := range n {
		lease, err := k.Acquire(ctx, renewer.Request{
			Name: name, Limit: limit, MaxWait: max(patience-time.Since(begun), 1),
		})
		if err != nil {
			return fmt.Errorf("%d of %d slots can be had: %w", i, n, err)
		}
		defer func() { _ = lease.Release(ctx) }() // what it leaves behind is found
	}
	lease, err := k.Acquire(ctx, renewer.Request{Name: name, Limit: limit, Try: true})
	if err == nil {
		return errors.Join(fmt.Errorf("%q: %d slots can be had, of %d", name, n+1, n),
			lease.Release(ctx))
	}
	if !errors.Is(err, renewer.ErrBusy) {
		return err
	}
	return nil
}
