package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// slice is how many requests, or round trips, are made at a time. It takes some tens of milliseconds: what else the machine does hits
// the slices of a round alike, but for a few rounds, which the median leaves out.
const slice = 200

// price is what the lock adds to a request, round by round, in µs.
type price struct {
	protocol                   string
	locked, bare, ping, above2 []float64
}

func (l *loading) priceRounds() int {
	if l.short {
		return 3
	}
	return 30 * l.rounds
}

// priceOf measures the same service with and without the lock, and bare round trips on the keeper's connection, in slices that take
// turns.
func (l *loading) priceOf(ctx context.Context, protocol string) (*price, error) {
	locked, err := serve(protocol, newBank(0, 0), l.keeper)
	if err != nil {
		return nil, err
	}
	defer locked.close()
	bare, err := serve(protocol, newBank(0, 0), nil)
	if err != nil {
		return nil, err
	}
	defer bare.close()
	p := &price{protocol: protocol}
	kinds := []struct {
		p50  func() (time.Duration, error)
		into *[]float64
	}{
		{func() (time.Duration, error) { return l.requests(locked) }, &p.locked},
		{func() (time.Duration, error) { return l.requests(bare) }, &p.bare},
		{func() (time.Duration, error) { return l.pings(ctx) }, &p.ping},
	}
	for round := range l.priceRounds() {
		for i := range kinds { // in an order that turns, so that none always follows the same one
			kind := kinds[(i+round)%len(kinds)]
			p50, err := kind.p50()
			if err != nil {
				return nil, err
			}
			*kind.into = append(*kind.into, float64(p50.Nanoseconds())/1e3)
		}
		p.above2 = append(p.above2, p.locked[round]-p.bare[round]-2*p.ping[round])
	}
	return p, nil
}

// requests is the median time of one request after the other on one connection.
func (l *loading) requests(s *service) (time.Duration, error) {
	w, err := l.generator.ask(job{Protocol: s.protocol, Addr: s.addr, Workers: 1, Requests: slice})
	if err == nil && w.OK < w.Requests {
		err = fmt.Errorf("requests failed, with nobody to compete with: %s", countsOf(w.Refused))
	}
	return w.P50, err
}

// pings is the median time of a round trip on the keeper's connection.
func (l *loading) pings(ctx context.Context) (time.Duration, error) {
	times := make([]time.Duration, 0, slice)
	for range slice {
		begun := time.Now()
		if err := l.client.Do(ctx, l.client.B().Ping().Build()).Error(); err != nil {
			return 0, fmt.Errorf("PING: %w", err)
		}
		times = append(times, time.Since(begun))
	}
	slices.Sort(times)
	return quantile(times, .5), nil
}

func priceTable(all []*price) table {
	t := table{{"p50, µs", "with the lock", "without", "PING", "above two PINGs", "middle half of the rounds"}}
	for _, p := range all {
		sorted := slices.Sorted(slices.Values(p.above2))
		t.add(p.protocol, fmt.Sprintf("%.0f", median(p.locked)), fmt.Sprintf("%.0f", median(p.bare)), fmt.Sprintf("%.0f", median(p.ping)),
			fmt.Sprintf("%.0f", median(p.above2)), fmt.Sprintf("%.0f to %.0f", sorted[len(sorted)/4], sorted[len(sorted)*3/4]))
	}
	return t
}

func priceTargets(all []*price) (targets []target) {
	const most = 50
	for _, p := range all {
		above := median(p.above2)
		targets = append(targets, target{
			p.protocol + ", p50 above two round trips", fmt.Sprintf("%.0f µs", above), "≤ 50 µs", above <= most,
		})
	}
	return targets
}
