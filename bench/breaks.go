package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// The table of leases that are broken. Told is from the call that breaks one to
// the end of its context; next, from the return of its operation to the next
// one's lock. Each of the three has a client of its own.
const (
	breakTable = "A lease is broken"
	byBreak    = lockbeat + ", Break"
	byReplace  = lockbeat + ", Replace"
	toldP99    = "told, p99, ms"
	nextP99    = "next, p99, ms"
)

// breakTTL is short, so that heartbeats come soon: a keeper listens from its
// first one on.
const breakTTL = time.Second

// breakers are a holder, the one who breaks its leases, and the one who has
// them next.
type breakers struct {
	holder, next *renewer.Keeper
	store        *redisstore.Store
	closers      []func()
}

func newBreakers(addr string) (b *breakers, err error) {
	option := rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true}
	b = new(breakers)
	for _, keeper := range []**renewer.Keeper{&b.holder, &b.next} {
		made, closing, err := newKeeper(option, breakTTL)
		if err != nil {
			b.close()
			return nil, err
		}
		*keeper = made
		b.closers = append(b.closers, closing)
	}
	made, err := newStore(option, breakTTL)
	if err != nil {
		b.close()
		return nil, err
	}
	b.store = made
	b.closers = append(b.closers, made.Close)
	return b, nil
}

func (b *breakers) close() {
	for _, one := range slices.Backward(b.closers) {
		one()
	}
}

// breaks measures how soon the holder of a broken lease is told, and how soon
// another has the lock.
func breaks(ctx context.Context, o options, f *figures) error {
	if len(o.contestants(lockbeat)) == 0 {
		return nil
	}
	batches, leases := 5, 40
	if o.short {
		batches, leases = 1, 3
	}
	s, err := openServer()
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	b, err := newBreakers(s.Addr())
	if err != nil {
		return err
	}
	defer b.close()
	ctx, cancel := context.WithTimeout(ctx, o.bound())
	defer cancel()
	for _, how := range []string{byBreak, byReplace} {
		var told, next []time.Duration
		for range batches {
			all, err := b.takeAll(ctx, leases)
			if err != nil {
				return fmt.Errorf("%s: %w", how, err)
			}
			for _, l := range all {
				one, err := b.once(ctx, l, how)
				if err != nil {
					return fmt.Errorf("%s: %w", how, err)
				}
				told, next = append(told, one.told), append(next, one.next)
			}
		}
		f.addTimes(breakTable, how, "told, ", told)
		f.addTimes(breakTable, how, "next, ", next)
	}
	return nil
}

// takeAll takes leases and holds them past their first heartbeat.
func (b *breakers) takeAll(ctx context.Context, n int) (all []*renewer.Lease, err error) {
	base := "break:" + strconv.FormatInt(rand.Int64(), 36) + ":"
	for i := range n {
		l, err := b.holder.Acquire(ctx, renewer.Request{Name: base + strconv.Itoa(i)})
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	time.Sleep(breakTTL / 2)
	return all, nil
}

type broken struct{ told, next time.Duration }

// once has a lease broken, of which the operation returns when it is told.
func (b *breakers) once(ctx context.Context, l *renewer.Lease, how string) (one broken, err error) {
	var had time.Time
	ended := make(chan error, 1)
	acquire := func(newest renewer.Newest) {
		next, err := b.next.Acquire(ctx, renewer.Request{Name: l.Name(), Newest: newest})
		had = time.Now()
		if err == nil {
			err = next.Release(ctx)
		}
		ended <- err
	}
	if how == byBreak {
		go acquire(renewer.NewestOff)
	}
	time.Sleep(inLine/20 + rand.N(inLine/20)) // it waits; and heartbeats are some ms apart
	begun := time.Now()
	if how == byReplace {
		go acquire(renewer.NewestReplaces)
	} else {
		answer := make(chan store.Answer, 1)
		go func() {
			in := b.store.Engine().(store.Inspector) //nolint:forcetypeassert // of redisstore
			answer <- in.Break(ctx, store.Breaking{
				Name: l.Name(), Fence: l.Fence(), Broken: store.Broken{By: "bench", Why: "to see"},
			})
		}()
		defer func() {
			if a := <-answer; a.Status != store.StatusHeld {
				err = errors.Join(err, a.Err, errors.New("it was not broken"))
			}
		}()
	}
	<-l.Context().Done()
	returned := time.Now()
	one.told = returned.Sub(begun)
	lost, ok := errors.AsType[*renewer.LostError](context.Cause(l.Context()))
	if !ok || lost.Reason != renewer.ReasonBroken && lost.Reason != renewer.ReasonReplaced {
		return one, fmt.Errorf("it ended otherwise: %w", context.Cause(l.Context()))
	}
	_ = l.Release(ctx) // which says that it was lost
	err = <-ended
	one.next = had.Sub(returned)
	if err == nil && one.next < 0 {
		err = errors.New("another had the lock before the operation had returned")
	}
	return one, err
}
