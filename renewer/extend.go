package renewer

import (
	"context"
	"errors"
	"time"

	"github.com/lockbeat/lockbeat/renewer/internal/asking"
)

// Extend makes a lease taken with [Manual] last for d from now, if it would not last longer anyway,
// as the store counts; belief ends earlier, by the clock drift and [Config.Margin]. Only one that
// still holds can be extended. It asks the store once and takes at most [Config.RequestTimeout].
//
// The error is a *[LostError] if the lease is lost, or turns out to be. It is an *[Error] of
// kind [ErrUnavailable] if the store did not answer: the lease lasts as long as before then,
// at the least, and may be extended again; of kind ctx's own error; and of kind [ErrConfig]
// if d does not exceed drift and margin, or if the lease has a heartbeat or was released.
func (l *Lease) Extend(ctx context.Context, d time.Duration) error {
	k := l.k
	d = d.Truncate(time.Millisecond)
	if err := l.beginExtend(d); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, k.cfg.RequestTimeout)
	defer cancel()
	request := limited
	if k.observer != nil {
		request = k.observer.RenewStart(limited, RenewStart{
			Leases: 1, Contexts: contexts([]*Lease{l}),
		})
	}
	sent := k.clock.AtMost()
	h := l.hold()
	h.TTL = d
	a := asking.AnswerTo(k.store.Renew(request, []Hold{h}), 0, 1)
	lost := k.extended(l, a, sent.Add(-max(0, a.Age)), d)
	if k.observer != nil {
		r := Renewed{Leases: 1, Took: k.clock.AtMost().Sub(sent)}
		r.count(a)
		k.observer.Renewed(request, r)
	}
	switch {
	case lost != nil:
		return lost
	case a.Status == StatusHeld:
		return nil
	case ctx.Err() != nil:
		return &Error{
			Op: "extend", Name: l.name, Kind: ctx.Err(), Err: context.Cause(ctx),
			Attempts: 1,
		}
	default:
		return &Error{
			Op: "extend", Name: l.name, Kind: ErrUnavailable, Err: storeError{a.Err},
			Attempts: 1,
		}
	}
}

// beginExtend notes how long the store may hold the key from now on, whatever the answer; or it
// returns why the lease can't be extended.
func (l *Lease) beginExtend(d time.Duration) error {
	k := l.k
	k.mu.Lock()
	defer k.mu.Unlock()
	fault := k.checkManual(d)
	switch {
	case l.lost() != nil:
		return l.lost()
	case l.state == stateReleased:
		fault = errors.New("it was released: extend it while the operation runs")
	case !l.manual():
		fault = errors.New("it has a heartbeat, which extends it: take it with Manual to do so " +
			"yourself")
	}
	if fault != nil {
		return &Error{Op: "extend", Name: l.name, Kind: ErrConfig, Err: fault}
	}
	l.extras.manual = max(l.extras.manual, d)
	return nil
}

// extended books the answer to an extension by d that was sent at an instant, and tells of a loss.
func (k *Keeper) extended(l *Lease, a Answer, sent instant, d time.Duration) error {
	var news losses
	k.mu.Lock()
	now := k.clock.Now()
	if l.state == stateHeld {
		k.bookRenewal(l, a, d, sent, now, &news) // its bound follows when the old instant comes
	}
	lost := l.lost()
	k.mu.Unlock()
	news.deliver(k)
	if lost == nil {
		return nil
	}
	return lost
}
