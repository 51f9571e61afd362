package adapter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// message is what the framework delivers.
type message struct{ Account, Text string }

// An adapter runs a framework's handler under the lock, and says in the
// framework's own words why it did not run.
func ExampleRun() {
	keeper, err := renewer.New(memory.New(), renewer.Config{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()
	handle := func(ctx context.Context, m message, handler func(context.Context) error) string {
		name := lockmw.Key("account", m.Account)
		ran, err := adapter.Run(ctx, keeper, name, handler, lockmw.Refuse())
		switch {
		case ran && err == nil:
			return "ack"
		case ran:
			return "nack: " + err.Error()
		case adapter.RefusalOf(err) == adapter.RefusalBusy:
			return fmt.Sprint("redeliver, soon: ", adapter.RetryIn(err, time.Second) < 2*time.Second)
		default:
			return "dead letter"
		}
	}

	ctx := context.Background()
	fmt.Println(handle(ctx, message{"7", "hello"}, func(context.Context) error {
		fmt.Println("meanwhile:", handle(ctx, message{"7", "again"},
			func(context.Context) error { return nil }))
		return nil
	}))
	fmt.Println(handle(ctx, message{}, func(context.Context) error { return nil }))
	// Output:
	// meanwhile: redeliver, soon: true
	// ack
	// dead letter
}
