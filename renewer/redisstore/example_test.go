package redisstore_test

import (
	"context"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/embedded"
)

// From the options of a client to a lock, and back.
func Example() {
	redis, err := embedded.Start() // in production a server
	if err != nil {
		panic(err)
	}
	defer redis.Close()
	// in production rueidis.ClientOption{InitAddress: []string{"redis:6379"}}
	option, err := redisstore.ClientOption(redis.ClientOption(), renewer.DefaultTTL)
	if err != nil {
		panic(err)
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		panic(err)
	}
	defer client.Close() // third
	store, err := redisstore.New(client, redisstore.WriteTimeout(option.ConnWriteTimeout))
	if err != nil {
		panic(err)
	}
	defer store.Close() // second
	keeper, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		panic(err)
	}
	defer keeper.Shutdown(context.Background()) //nolint:errcheck // first

	fmt.Println(lockmw.Do(context.Background(), keeper, "order:42",
		func(ctx context.Context) (string, error) {
			return "charged", context.Cause(ctx)
		}))
	// Output: charged <nil>
}
