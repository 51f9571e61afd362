package main

import (
	"context"
	"time"
)

const cycleTTL = 10 * time.Second

// A cycler takes and frees a lock, over and over.
type cycler struct {
	who string
	// worker makes one cycle for a goroutine of its own, on a key of its own.
	worker func(number int) (cycle func(context.Context) error)
	close  func()
}

// newCyclers makes the contestants, the floor first and Lockbeat second.
func newCyclers(ctx context.Context, addr string) (all []cycler, closeAll func(), err error) {
	closeAll = func() {
		for _, c := range all {
			c.close()
		}
	}
	defer func() {
		if err != nil {
			closeAll()
		}
	}()
	for _, newOne := range []func(context.Context, string) (cycler, error){
		rawCycler, keeperCycler,
		peerCycler,
	} {
		c, err := newOne(ctx, addr)
		if err != nil {
			return all, closeAll, err
		}
		all = append(all, c)
	}
	return all, closeAll, nil
}

func rawCycler(ctx context.Context, addr string) (cycler, error) {
	r, err := newRaw(ctx, addr, cycleTTL)
	if err != nil {
		return cycler{}, err
	}
	return cycler{floor, func(number int) func(context.Context) error {
		l := r.lock("floor:"+leaseName(number), number)
		return func(ctx context.Context) error {
			if err := r.acquire(ctx, &l); err != nil {
				return err
			}
			return r.release(ctx, &l)
		}
	}, r.client.Close}, nil
}

func keeperCycler(_ context.Context, addr string) (cycler, error) {
	k, err := newKeeper(addr, cycleTTL)
	if err != nil {
		return cycler{}, err
	}
	return cycler{lockbeat, func(number int) func(context.Context) error {
		name := leaseName(number)
		return func(ctx context.Context) error {
			l, err := k.Acquire(ctx, name)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		}
	}, func() {
		_ = k.Shutdown(context.Background()) // every lease is released
	}}, nil
}

func peerCycler(_ context.Context, addr string) (cycler, error) {
	l, err := newLocker(addr, cycleTTL)
	if err != nil {
		return cycler{}, err
	}
	return cycler{peer, func(number int) func(context.Context) error {
		name := leaseName(number)
		return func(ctx context.Context) error {
			_, release, err := l.WithContext(ctx, name)
			if err != nil {
				return err
			}
			release()
			return nil
		}
	}, l.Close}, nil
}
