package redisstore_test

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// From where Redis is to a lock, and back.
func Example() {
	ctx := context.Background()
	redis, err := redisstore.FromEnv() // LOCKBEAT_URL, such as redis://redis:6379
	if err != nil {
		panic(err)
	}
	store, err := redisstore.Open(ctx, redis)
	if err != nil {
		panic(err)
	}
	defer store.Close() // second
	keeper, err := renewer.New(store, renewer.Config{})
	if err != nil {
		panic(err)
	}
	defer keeper.Shutdown(ctx) //nolint:errcheck // first

	fmt.Println(lockmw.Do(ctx, keeper, "order:42",
		func(ctx context.Context) (string, error) {
			return "charged", context.Cause(ctx)
		}))
}
