package main

import (
	"context"
	"log"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// accountLock is the one recipe: all code that locks an account takes the name
// from here.
func accountLock(id string) string { return lockmw.Key("account", id) }

// transfer is your code. It knows no lock: it gets a context, and stops when
// that ends.
func transfer(ctx context.Context, from, to string) error {
	log.Printf("begin %q -> %q", from, to) // by %s a client could write lines of its own
	defer log.Printf("end   %q -> %q", from, to)
	select {
	case <-time.After(workTime):
		if accounts == nil {
			return nil
		}
		return move(ctx, from, to, 10)
	case <-ctx.Done():
		return context.Cause(ctx) // says whether the lock was lost
	}
}

// openLocks makes the keeper of a process. Call closeLocks when its servers
// have stopped.
func openLocks(
	redis redisstore.Deployment, observer renewer.Observer,
) (keeper *renewer.Keeper, closeLocks func()) {
	store, err := redisstore.Open(context.Background(), redis)
	must(err)
	keeper, err = renewer.New(store, renewer.Config{
		MaxHold:  2 * time.Minute, // ends the lock of a request, call or task that takes longer
		Observer: observer,        // makes metrics; slog.Default() hears of what goes wrong
	})
	must(err)
	return keeper, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := keeper.Shutdown(ctx); err != nil {
			log.Print(err)
		}
		store.Close()
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
