package once_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func newKeeper() (*renewer.Keeper, func()) {
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL, Node: "web-1"})
	if err != nil {
		panic(err)
	}
	return k, func() { _ = k.Shutdown(context.Background()) }
}

func ExampleDo() {
	keeper, stop := newKeeper()
	defer stop()
	bill := func(context.Context) (string, error) {
		fmt.Println("billing order 42")
		return "invoice 7", nil
	}
	for range 2 { // on whichever node
		invoice, err := once.Do(context.Background(), keeper, lockmw.Key("invoice", "42"), bill)
		fmt.Println(invoice, err)
	}
	// Output:
	// billing order 42
	// invoice 7 <nil>
	// invoice 7 <nil>
}

func ExampleCurrent() {
	keeper, stop := newKeeper()
	defer stop()
	_, err := once.Do(context.Background(), keeper, "import",
		func(ctx context.Context) (int, error) {
			a := once.Current(ctx)
			fmt.Printf("attempt %d of %d, the last: %v\n", a.Number, a.Max, a.Number == a.Max)
			return 0, errors.New("the file is not there yet")
		}, once.MaxAttempts(2), once.Retry(time.Millisecond, time.Minute))
	fmt.Println(errors.Is(err, once.ErrAttemptsExhausted))
	// Output:
	// attempt 1 of 2, the last: false
	// attempt 2 of 2, the last: true
	// true
}

func ExamplePermanent() {
	keeper, stop := newKeeper()
	defer stop()
	for range 2 {
		_, err := once.Do(context.Background(), keeper, "charge:9",
			func(context.Context) (int, error) {
				fmt.Println("the card is refused")
				return 0, once.Permanent(errors.New("card expired"))
			})
		fmt.Println(errors.Is(err, once.ErrGivenUp))
	}
	// Output:
	// the card is refused
	// true
	// true
}

func ExampleForget() {
	keeper, stop := newKeeper()
	defer stop()
	ctx := context.Background()
	bill := func(context.Context) (string, error) { return "", errors.New("no such account") }
	_, err := once.Do(ctx, keeper, "invoice:42", bill, once.MaxAttempts(1), once.TellErrors())
	fmt.Println(errors.Is(err, once.ErrAttemptsExhausted))

	info, err := once.Look(ctx, keeper, "invoice:42")
	fmt.Println(info.Attempts, info.Last.Node, info.Why, err)
	fmt.Println(info.Err)

	// The account is there now.
	fmt.Println(once.Forget(ctx, keeper, "invoice:42"))
	info, err = once.Look(ctx, keeper, "invoice:42")
	fmt.Println(info.Attempts, err)
	// Output:
	// true
	// 1 web-1 no such account <nil>
	// lockbeat: all attempts have failed
	// <nil>
	// 0 <nil>
}
