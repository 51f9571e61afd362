package redisstore_test

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/embedded"
)

// From where Redis is to a lock, and back.
func Example() {
	server, err := embedded.Start() // in production a server
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx := context.Background()
	redis := redisstore.Deployment{Option: server.ClientOption()} // in production by FromEnv
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
	// Output: charged <nil>
}
