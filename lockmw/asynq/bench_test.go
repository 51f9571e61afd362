package asynqmw_test

import (
	"context"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// BenchmarkHandle is a task under a lock in memory, with an empty payload.
func BenchmarkHandle(b *testing.B) {
	k, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(b, err)
	b.Cleanup(func() { _ = k.Shutdown(context.WithoutCancel(b.Context())) })
	h := asynqmw.Handle(k, func(struct{}) string { return "a" },
		func(context.Context, struct{}) error { return nil })
	task := asynq.NewTask("t", []byte("{}"))
	b.ReportAllocs()
	for b.Loop() {
		if err := h.ProcessTask(b.Context(), task); err != nil {
			b.Fatal(err)
		}
	}
}
