package shop

import (
	"testing"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestOnRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t) // or embedded.Run(t)
	locks, err := redisstore.New(server.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(locks.Close)
	if _, err := charge(t.Context(), newKeeper(t, locks), "42", paid); err != nil {
		t.Error(err)
	}
}
