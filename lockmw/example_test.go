package lockmw_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func newExampleKeeper() (keeper *renewer.Keeper, shutdown func()) {
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		panic(err)
	}
	return keeper, func() {
		if err := keeper.Shutdown(context.Background()); err != nil {
			panic(err)
		}
	}
}

func ExampleDo() {
	ctx := context.Background()
	keeper, shutdown := newExampleKeeper()
	defer shutdown()

	charge := func(ctx context.Context) (string, error) {
		// A second attempt meanwhile is refused.
		_, err := lockmw.Do(context.Background(), keeper, "order:42",
			func(context.Context) (string, error) {
				return "charged twice", nil
			}, lockmw.Refuse())
		return fmt.Sprint("charged; somebody else was refused: ",
			errors.Is(err, renewer.ErrHeld)), nil
	}
	receipt, err := lockmw.Do(ctx, keeper, "order:42", charge)
	fmt.Println(receipt, err)
	// Output: charged; somebody else was refused: true <nil>
}

func ExampleWrap() {
	ctx := context.Background()
	keeper, shutdown := newExampleKeeper()
	defer shutdown()

	type order struct{ ID string }
	chargeOrder := func(ctx context.Context, o order) (string, error) {
		return fmt.Sprintf("charged %s under the lock: %v", o.ID,
			lockmw.Held(ctx, "order:"+o.ID)), nil
	}
	safe := lockmw.Wrap(keeper, func(o order) string {
		return lockmw.Key("order", o.ID)
	}, chargeOrder,
		lockmw.Wait(time.Second), lockmw.Operation("charge"))
	fmt.Println(safe(ctx, order{ID: "42"}))
	// Output: charged 42 under the lock: true <nil>
}
