package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
)

// slice is how many requests, or round trips, are made at a time. It takes
// some tens of milliseconds at most: what else the machine does hits the
// slices of a round alike, but for a few rounds, which the median leaves out.
const slice = 100

// What a round consists of. A lock needs two round trips; what it costs above
// them is its time less that of the same handler with two PINGs in place of
// the lock. PINGs by themselves are quicker, since they find a processor
// awake each time. The floor shows how much of the rest is there too if a user writes the lock by
// hand, and the calls how much of it is the middleware's.
const (
	withLock  = iota // requests under the lock
	withCalls        // requests whose handler acquires and releases it itself
	withFloor        // requests whose handler runs the same scripts, on a connection of its own
	withPings        // requests whose handler makes two PINGs
	without          // requests whose handler does nothing
	pingAlone        // round trips by themselves
	kinds
)

// price is what a request costs, by kind and round, in µs: each is the median of its slice.
type price struct {
	protocol string
	p50      [kinds][]float64
}

func (l *loading) priceRounds() int {
	if l.short {
		return 3
	}
	return 30 * l.rounds
}

// priceOf measures, in slices that take turns.
func (l *loading) priceOf(ctx context.Context, protocol string) (*price, error) {
	floor, err := newRaw(ctx, l.redis.Addr(), synchronous, renewer.DefaultTTL)
	if err != nil {
		return nil, err
	}
	defer floor.client.Close()
	var services [pingAlone]*service
	for kind, instead := range [pingAlone]func(context.Context, string) error{
		withCalls: func(ctx context.Context, account string) error {
			return ownKey(l.keeper, account)(ctx)
		},
		withFloor: floor.cycle,
		withPings: l.pingTwice,
	} {
		var k *renewer.Keeper
		if kind == withLock {
			k = l.keeper
		}
		if services[kind], err = serve(protocol, &bank{other: instead}, k); err != nil {
			return nil, err
		}
		defer services[kind].close()
	}
	p := &price{protocol: protocol}
	for round := range l.priceRounds() {
		for i := range kinds { // in an order that turns, so that none always follows the same one
			kind := (i + round) % kinds
			measure := l.pings
			if kind != pingAlone {
				measure = func(context.Context) (time.Duration, error) {
					return l.requests(services[kind])
				}
			}
			p50, err := measure(ctx)
			if err != nil {
				return nil, err
			}
			p.p50[kind] = append(p.p50[kind], float64(p50.Nanoseconds())/1e3)
		}
	}
	return p, nil
}

// requests is the median time of one request after the other on one connection.
func (l *loading) requests(s *service) (time.Duration, error) {
	w, err := l.generator.ask(job{Protocol: s.protocol, Addr: s.addr, Workers: 1, Requests: slice})
	if err == nil && w.OK < w.Requests {
		err = fmt.Errorf("without competition, requests failed: %s", countsOf(w.Refused))
	}
	return w.P50, err
}

// pings is the median time of a round trip on the keeper's connection.
func (l *loading) pings(ctx context.Context) (time.Duration, error) {
	times := make([]time.Duration, 0, slice)
	for range slice {
		begun := time.Now()
		if err := l.ping(ctx); err != nil {
			return 0, err
		}
		times = append(times, time.Since(begun))
	}
	slices.Sort(times)
	return quantile(times, .5), nil
}

func (l *loading) pingTwice(ctx context.Context, _ string) error {
	if err := l.ping(ctx); err != nil {
		return err
	}
	return l.ping(ctx)
}

func (l *loading) ping(ctx context.Context) error {
	if err := l.client.Do(ctx, l.client.B().Ping().Build()).Error(); err != nil {
		return fmt.Errorf("PING: %w", err)
	}
	return nil
}

// cycle takes and frees the lock of an account. rueidis would pipeline for a context that can be
// cancelled, as a request's, which takes longer.
func (r *raw) cycle(ctx context.Context, account string) error {
	ctx = context.WithoutCancel(ctx)
	l := r.lock("floor:"+account, 0)
	if err := r.acquire(ctx, &l); err != nil {
		return err
	}
	return r.release(ctx, &l)
}

// more is by how much a kind costs more than another one and a number
// of PINGs by themselves, round by round.
func (p *price) more(kind, than, pings int) []float64 {
	values := slices.Clone(p.p50[kind])
	for round := range values {
		values[round] -= p.p50[than][round] + float64(pings)*p.p50[pingAlone][round]
	}
	return values
}

func priceTable(all []*price) table {
	t := table{{
		"p50, µs", "with the lock", "Acquire + Release in the handler instead",
		ourScripts + " instead", "two PINGs instead", "without",
		"a PING by itself",
		"lock − two PINGs instead", "quartiles", "lock − Acquire + Release instead",
		"lock − " + ourScripts + " instead", "lock − without − 2 PINGs by themselves",
	}}
	for _, p := range all {
		row := []string{p.protocol}
		for _, values := range p.p50 {
			row = append(row, whole(median(values)))
		}
		judged := slices.Sorted(slices.Values(p.more(withLock, withPings, 0)))
		t.add(append(row, whole(median(judged)),
			whole(judged[len(judged)/4])+", "+whole(judged[len(judged)*3/4]),
			whole(median(p.more(withLock, withCalls, 0))),
			whole(median(p.more(withLock, withFloor, 0))),
			whole(median(p.more(withLock, without, 2))))...)
	}
	return t
}

func whole(f float64) string { return fmt.Sprintf("%.0f", f) }

func priceTargets(all []*price) (targets []target) {
	const pingsMost, floorMost = 50, 15
	for _, p := range all {
		above := median(p.more(withLock, withPings, 0))
		ofFloor := median(p.more(withLock, withFloor, 0))
		targets = append(targets, target{
			p.protocol + ", p50 above two round trips",
			fmt.Sprintf("%s µs (%s: %s)", whole(above), ourScripts,
				whole(median(p.more(withFloor, withPings, 0)))), "≤ 50 µs", above <= pingsMost,
		}, target{
			p.protocol + ", p50 above " + ourScripts, whole(ofFloor) + " µs", "≤ 15 µs",
			ofFloor <= floorMost,
		})
	}
	return targets
}
