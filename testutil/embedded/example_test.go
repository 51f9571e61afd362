package embedded_test

import (
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/testutil/embedded"
)

func Example() {
	redis, err := embedded.Start()
	if err != nil {
		panic(err)
	}
	defer redis.Close()
	client, err := redis.NewClient()
	if err != nil {
		panic(err)
	}
	defer client.Close()
	pong, err := client.Do(context.Background(), client.B().Ping().Build()).ToString()
	fmt.Println(pong, err)
	// Output: PONG <nil>
}
