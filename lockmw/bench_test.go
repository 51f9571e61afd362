package lockmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

func newKeeper(b *testing.B) *renewer.Keeper {
	k, err := renewer.New(memory.New(), renewer.Config{TTL: 15 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = k.Shutdown(context.Background()) })
	return k
}

func BenchmarkLease(b *testing.B) {
	k := newKeeper(b)
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		l, err := k.Acquire(ctx, "a", renewer.MaxWait(time.Second), renewer.Operation("x"))
		if err != nil {
			b.Fatal(err)
		}
		_ = l.Release(ctx)
	}
}

func BenchmarkDo(b *testing.B) {
	k := newKeeper(b)
	ctx := context.Background()
	b.ReportAllocs()
	fn := func(context.Context) (int, error) { return 1, nil }
	for b.Loop() {
		if _, err := lockmw.Do(ctx, k, "a", fn); err != nil {
			b.Fatal(err)
		}
	}
}
