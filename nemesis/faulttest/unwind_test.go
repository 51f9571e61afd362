//go:build unix

package faulttest_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// However a function under a lock ends, the key is free within 50 ms.
func TestFunctionDoesNotReturn(t *testing.T) { //nolint:paralleltest // it measures 50 ms
	const within = 50 * time.Millisecond
	n := join(t, redistest.Start(t), renewer.Config{TTL: renewer.DefaultTTL})
	n.warm(t)
	for _, c := range []struct { //nolint:paralleltest // as above
		name    string
		leave   func()
		through any // what a deferred recover outside gets
	}{
		{"panic", func() { panic("out of here") }, "out of here"},
		{"Goexit", runtime.Goexit, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var took time.Duration
			feel(t, within/5, n.server).fairly(func(int) bool {
				left, through := leave(t, n, c.leave)
				took = gone(t, n.server, "lock", left)
				require.Equal(t, c.through, through, "it passes through")
				return took < within
			})
			assert.Less(t, took, within)
		})
	}
}

// leave leaves a function under a lock, and returns when that was and what passed through.
func leave(t *testing.T, n *node, how func()) (at time.Time, through any) {
	t.Helper()
	var during lock
	var left time.Time
	var err error
	passed := make(chan any, 1)
	go func() {
		defer func() { passed <- recover() }()
		_, doErr := lockmw.Do(context.Background(), n.keeper, "lock",
			func(context.Context) (struct{}, error) {
				during, err = look(n.server, "lock")
				left = time.Now()
				how()
				return struct{}{}, nil
			})
		panic(doErr) // not reached, unless the lock was not to be had
	}()
	through = <-passed
	require.NoError(t, err)
	require.NotEmpty(t, during.value, "it was held while the function ran")
	return left, through
}
