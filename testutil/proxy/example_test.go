package proxy_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/testutil/embedded"
	"github.com/lockbeat/lockbeat/testutil/proxy"
)

// A link is cut, and mended.
func Example() {
	redis, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer redis.Close()
	link, err := proxy.New(redis.Addr())
	if err != nil {
		panic(err)
	}
	defer link.Close()
	option := redis.ClientOption()
	option.InitAddress = []string{link.Addr()}
	client, err := rueidis.NewClient(option)
	if err != nil {
		panic(err)
	}
	defer client.Close()

	ping := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		return client.Do(ctx, client.B().Ping().Build()).Error()
	}
	link.Blackhole(proxy.Both)
	fmt.Println("cut:", ping())
	link.Heal()
	// Output: cut: context deadline exceeded
}
