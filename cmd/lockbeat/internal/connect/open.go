package connect

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// Open connects to Redis and returns the store of its locks, for commands that look at locks and
// break them: its user needs no other rights. It is OpenFor with [renewer.DefaultTTL] otherwise.
func Open(ctx context.Context) (*redisstore.Store, rueidis.Client, error) {
	return open(ctx, renewer.DefaultTTL, redisstore.ToInspect())
}

// OpenFor connects to Redis, with a client that is fit for leases of the given TTL. The caller
// closes both, the store first. The error is [renewer.ErrConfig] and names the variables that are
// wrong, or [renewer.ErrUnavailable], or ctx's own. It may be called concurrently.
func OpenFor(
	ctx context.Context, ttl time.Duration,
) (*redisstore.Store, rueidis.Client, error) {
	return open(ctx, ttl)
}

func open(
	ctx context.Context, ttl time.Duration, options ...redisstore.Option,
) (*redisstore.Store, rueidis.Client, error) {
	d, err := dialFor(ctx, ttl)
	if err != nil {
		return nil, nil, err
	}
	store, err := d.Store(options...)
	if err != nil {
		d.Client.Close()
		return nil, nil, err
	}
	return store, d.Client, nil
}

// wrong is the error for variables that are.
func wrong(text string) error { return fmt.Errorf("%w: %s", renewer.ErrConfig, text) }

// dial connects a client. rueidis' own function hears of no context, so it is left to itself when
// ctx ends first.
func dial(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	type result struct {
		client rueidis.Client
		err    error
	}
	dialled := make(chan result, 1)
	go func() {
		client, err := rueidis.NewClient(option)
		dialled <- result{client, err}
	}()
	select {
	case r := <-dialled:
		if r.err != nil {
			return nil, refused(option, r.err)
		}
		return r.client, nil
	case <-ctx.Done():
		go func() {
			if r := <-dialled; r.err == nil {
				r.client.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// refused is the error of a connection that could not be made. A server that has answered with an
// error of its own, such as WRONGPASS, will do so again.
func refused(option rueidis.ClientOption, err error) error {
	where := strings.Join(option.InitAddress, ",")
	answer, ok := errors.AsType[*rueidis.RedisError](err)
	if ok && !answer.IsLoading() && !answer.IsClusterDown() &&
		!answer.IsTryAgain() {
		return fmt.Errorf("%w: %s, %s or %s: the server at %s says: %w", renewer.ErrConfig,
			urlVariable, passwordVariable, sentinelPasswordVariable, where, err)
	}
	return fmt.Errorf("%w: no connection to %s: %w", renewer.ErrUnavailable, where, err)
}
