package lockmw_test

import (
	"cmp"
	"context"
	"database/sql"
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
			errors.Is(err, renewer.ErrBusy)), nil
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

// A preview is made of the latest text: a newer request ends the one that is
// being made.
func ExampleReplace() {
	ctx := context.Background()
	keeper, shutdown := newExampleKeeper()
	defer shutdown()

	began, old := make(chan struct{}), make(chan error)
	go func() {
		_, err := lockmw.Do(ctx, keeper, "preview:7", func(ctx context.Context) (string, error) {
			close(began)
			<-ctx.Done() // it takes long, and heeds its context
			return "", ctx.Err()
		}, lockmw.Replace())
		old <- err
	}()
	<-began
	fmt.Println(lockmw.Do(ctx, keeper, "preview:7", func(context.Context) (string, error) {
		return "of the latest text", nil
	}, lockmw.Replace()))
	fmt.Println("the old one was replaced:", errors.Is(<-old, renewer.ErrReplaced))
	// Output:
	// of the latest text <nil>
	// the old one was replaced: true
}

// A transfer needs both accounts. Two transfers in opposite directions do not
// wait for each other in a circle: the locks are taken all or none.
func ExampleAll() {
	ctx := context.Background()
	keeper, shutdown := newExampleKeeper()
	defer shutdown()

	accounts := lockmw.All("account:7", "account:8")
	_, err := lockmw.Do(ctx, keeper, accounts, func(ctx context.Context) (any, error) {
		fmt.Println(lockmw.Held(ctx, "account:7"), lockmw.Held(ctx, "account:8"))
		fmt.Println("a token for each:", lockmw.FenceOf(ctx, "account:7") > 0,
			lockmw.FenceOf(ctx, "account:8") > 0)
		return nil, nil
	})
	fmt.Println(err)
	// Output:
	// true true
	// a token for each: true true
	// <nil>
}

// Without a heartbeat a function says between its steps how long the next one
// may take. If it hangs in one, it loses the lock.
func ExampleManual() {
	ctx := context.Background()
	keeper, shutdown := newExampleKeeper()
	defer shutdown()

	_, err := lockmw.Do(ctx, keeper, "import", func(ctx context.Context) (any, error) {
		for _, file := range []string{"a.csv", "b.csv"} {
			if err := lockmw.Extend(ctx, time.Minute); err != nil {
				return nil, err // the lock is lost
			}
			fmt.Println(file, "may take over 50 s:", lockmw.Remaining(ctx) > 50*time.Second)
		}
		return nil, nil
	}, lockmw.Manual(time.Minute))
	fmt.Println(err)
	// Output:
	// a.csv may take over 50 s: true
	// b.csv may take over 50 s: true
	// <nil>
}

// One process of many leads for as long as it lives; the others stand by. When
// the leader returns or dies, another one leads.
func ExampleLead() {
	ctx, stop := context.WithCancel(context.Background())
	keeper, shutdown := newExampleKeeper()
	defer shutdown()

	err := lockmw.Lead(ctx, keeper, "indexer", func(ctx context.Context) error {
		fmt.Println("leads")
		stop() // SIGTERM, in production
		<-ctx.Done()
		return ctx.Err() // the lead is lost, or the process stops
	})
	fmt.Println(err)
	// Output:
	// leads
	// context canceled
}

// What is written carries the token of its lock, and the resource refuses a
// token that is lower than the highest that it has seen.
func ExampleFence() {
	ctx := context.Background()
	keeper, shutdown := newExampleKeeper()
	defer shutdown()

	var highest int64 // of the resource
	write := func(fence int64) error {
		if fence < highest {
			return errors.New("refused: a later holder has written")
		}
		highest = fence
		return nil
	}
	var paused int64 // the token of a holder that was paused, and lost its lock
	for range 2 {
		_, err := lockmw.Do(ctx, keeper, "account:7", func(ctx context.Context) (any, error) {
			paused = cmp.Or(paused, lockmw.Fence(ctx))
			return nil, write(lockmw.Fence(ctx))
		})
		fmt.Println(err)
	}
	fmt.Println(write(paused))
	// Output:
	// <nil>
	// <nil>
	// refused: a later holder has written
}

// A service that is called under a lock of another process has that lock's
// token alone, and compares it itself. The table has a column
// fence BIGINT NOT NULL DEFAULT 1,
// so that also a row which is new refuses who has no lock. Under a lock of its
// own a process calls package fencetx.
func ExampleWithFence_sql() {
	debit := func(ctx context.Context, db *sql.DB, account string, amount int64) error {
		result, err := db.ExecContext(ctx, `
			UPDATE accounts SET balance = balance - $1, fence = $2
			WHERE id = $3 AND fence <= $2`,
			amount, lockmw.Fence(ctx), account)
		if err != nil {
			return err
		}
		if rows, err := result.RowsAffected(); err != nil || rows == 1 {
			return err
		}
		return errors.New("no such account, or a later holder has written")
	}
	_ = debit
}
