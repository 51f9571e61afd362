package memory_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// Two keepers on one store exclude each other as two processes on one Redis do.
func Example() {
	ctx, store := context.Background(), memory.New()
	var keepers [2]*renewer.Keeper
	for i := range keepers {
		var err error
		keepers[i], err = renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL})
		if err != nil {
			panic(err)
		}
		defer keepers[i].Shutdown(ctx) //nolint:errcheck // an example
	}

	_, err := lockmw.Do(ctx, keepers[0], "order:42", func(context.Context) (any, error) {
		_, err := lockmw.Do(ctx, keepers[1], "order:42", func(context.Context) (any, error) {
			return nil, nil
		}, lockmw.Refuse())
		return nil, err
	})
	fmt.Println(errors.Is(err, renewer.ErrBusy))
	// Output: true
}
