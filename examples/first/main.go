// First is the program that the README begins with. Run it in two terminals:
// the second waits.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

func main() {
	ctx := context.Background()
	redis, err := redisstore.FromEnv() // LOCKBEAT_URL, or redis://127.0.0.1:6379
	must(err)
	store, err := redisstore.Open(ctx, redis)
	must(err)
	defer store.Close()
	keeper, err := renewer.New(store, renewer.Config{})
	must(err)
	defer keeper.Shutdown(ctx)

	receipt, err := lockmw.Do(ctx, keeper, lockmw.Key("order", "42"), charge)
	must(err)
	fmt.Println(receipt)
}

// charge is your code. It names no lock. Its context ends if the lock is lost.
func charge(ctx context.Context) (string, error) {
	fmt.Println("charging")
	select {
	case <-time.After(5 * time.Second): // the work
		return "charged", nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
