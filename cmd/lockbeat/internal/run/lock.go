//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/connect"
	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// lock is the way to the lock, and the lock.
type lock struct {
	store  *redisstore.Store
	keeper *renewer.Keeper
	lease  *renewer.Lease
	pulse  pulse
}

// pulse hears of renewals.
type pulse struct {
	renewer.NopObserver
	beats chan struct{}
}

// Renewed implements [renewer.Observer].
func (p pulse) Renewed(context.Context, renewer.Renewed) {
	select {
	case p.beats <- struct{}{}:
	default: // one is to be read: the lease is looked at after that
	}
}

// take takes the lock, within the time that the options give.
func (r *running) take(ctx context.Context, command string) (*lock, error) {
	begun := time.Now()
	l, err := open(ctx, r.options, r.warn)
	if err != nil {
		return nil, err
	}
	request := renewer.Request{Name: r.name, Operation: filepath.Base(command), Try: true}
	if r.atMost > 0 {
		request.Limit = func() int { return r.atMost }
	}
	// It is asked for once without a wait, whose error says for whom to wait.
	l.lease, err = l.keeper.Acquire(ctx, request)
	if err != nil && r.wait != 0 && !r.skip {
		if errors.Is(err, renewer.ErrBusy) {
			r.explain("waiting for %s", r.whoHas(err))
		}
		if left := r.wait - time.Since(begun); r.wait < 0 {
			request.Try, request.LongRunning = false, true // through an outage, too
		} else if left > 0 { // else one question
			request.Try, request.MaxWait = false, left
		}
		first := err
		l.lease, err = l.keeper.Acquire(ctx, request)
		// A wait that is over before an answer may come says nothing new.
		if errors.Is(first, renewer.ErrBusy) && errors.Is(err, renewer.ErrUnavailable) &&
			r.wait > 0 && request.MaxWait < l.keeper.Config().RequestTimeout {
			err = first
		}
	}
	if err != nil {
		l.close(r.options)
		return nil, err
	}
	r.tell("got %s after %s, fencing token %d", out.Safe(r.name), out.Duration(time.Since(begun)),
		l.lease.Fence())
	return l, nil
}

// open connects to Redis. A server that does not answer is tried for as long as
// the lock is waited for: without a bound, for one TTL.
func open(ctx context.Context, o options, warn func(text string)) (*lock, error) {
	patience := o.wait
	switch {
	case o.skip:
		patience = 0
	case o.wait < 0:
		patience = o.ttl
	}
	// The options of the client are for leases that are given up TTL/10 before
	// their end, with renewer's own margin. These are given up earlier, so
	// connections have to be, too.
	ttl := (o.ttl - o.margin()) * 10 / 9
	const pause = 250 * time.Millisecond
	for until := time.Now().Add(patience); ; {
		l := &lock{pulse: pulse{beats: make(chan struct{}, 1)}}
		var err error
		l.store, err = connect.OpenFor(ctx, ttl)
		if err == nil {
			l.keeper, err = renewer.New(l.store, renewer.Config{
				TTL: o.ttl, Margin: o.margin(), Observer: l.pulse,
				Log: renewer.Silent, // the command tells its user itself
			})
			return l, err
		}
		if !errors.Is(err, renewer.ErrUnavailable) || errors.Is(err, renewer.ErrRejected) ||
			time.Until(until) < pause {
			return nil, err
		}
		if warn != nil {
			warn(fmt.Sprintf("%v; trying for %v", err, patience))
			warn = nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// close frees what is held, and ends the connection.
func (l *lock) close(o options) {
	ctx, cancel := context.WithTimeout(context.Background(), min(o.ttl, mostRelease))
	defer cancel()
	_ = l.keeper.Shutdown(ctx) // what is not freed lapses
	l.store.Close()
}

// mostRelease is how long a Redis that does not answer keeps the program from
// ending.
const mostRelease = 5 * time.Second

// release frees the lock.
func (l *lock) release(o options) error {
	ctx, cancel := context.WithTimeout(context.Background(), min(o.ttl, mostRelease))
	defer cancel()
	return l.lease.Release(ctx)
}
