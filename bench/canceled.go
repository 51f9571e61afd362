package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// canceled measures when the acquire of a lone caller returns whose context is cancelled while the
// server hangs.
func canceled(ctx context.Context, o options, out *printer) (target, error) {
	server, err := openServer()
	if err != nil {
		return target{}, err
	}
	defer func() { _ = server.Close() }() // it has no data that could be lost
	k, client, err := connectKeeper(server.Addr(), cycleTTL)
	if err != nil {
		return target{}, err
	}
	defer func() {
		_ = k.Shutdown(context.WithoutCancel(ctx)) // every lease is released
		client.Close()
	}()
	cancels := 200
	if o.short {
		cancels = 10
	}
	var times []time.Duration
	for number := range cancels {
		took, err := cancelOnce(ctx, server, k, number)
		if err != nil {
			return target{}, fmt.Errorf("cancel of a lone caller: %w", err)
		}
		times = append(times, took)
	}
	slices.Sort(times)
	p50, p99 := ms(quantile(times, .5)), ms(quantile(times, .99))
	t := table{{"cancels", "p50", "p99", "longest"}}
	t.add(fmt.Sprint(cancels), msOf(p50), msOf(p99), msOf(ms(times[len(times)-1])))
	out.printf("\n## A lone caller cancels while the server hangs: when Acquire returns\n\n%s", t)
	const most = 5
	return target{
		"cancel of a lone caller while the server hangs, p99", msOf(p99), "≤ 5 ms", p99 <= most,
	}, out.err
}

// hangs is how long a request has hung when it is cancelled, and aloneFor how many cycles come
// first, so that the store knows that the caller is alone.
const (
	hangs    = 5 * time.Millisecond
	aloneFor = 50
)

func cancelOnce(
	ctx context.Context, server *redistest.Server, k *renewer.Keeper, number int,
) (took time.Duration, err error) {
	cycle := ownKey(k, "canceled:alone")
	for range aloneFor {
		if err := cycle(ctx); err != nil {
			return 0, err
		}
	}
	if err := server.Stop(); err != nil {
		return 0, err
	}
	acquiring, cancel := context.WithCancel(ctx)
	defer cancel()
	at := make(chan time.Time, 1)
	time.AfterFunc(hangs, func() {
		at <- time.Now()
		cancel()
	})
	_, err = k.Acquire(acquiring, fmt.Sprintf("canceled:%d", number))
	returned := time.Now()
	switch {
	case errors.Is(err, context.Canceled):
		took, err = returned.Sub(<-at), nil
	case err == nil:
		err = errors.New("the server granted a lock while it hung")
	}
	return took, errors.Join(err, server.Cont())
}
