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
	n := join(t, redistest.Start(t), renewer.Config{TTL: renewer.DefaultTTL})
	n.warm(t)
	for name, leave := range map[string]func(){ //nolint:paralleltest // as above
		"panic":  func() { panic("out of here") },
		"Goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			var during lock
			var left time.Time
			var lookErr error
			passed := make(chan any, 1)
			go func() {
				defer func() { passed <- recover() }()
				_, _ = lockmw.Do(context.Background(), n.keeper, name, func(context.Context) (struct{}, error) {
					during, lookErr = look(n.server, name)
					left = time.Now()
					leave()
					return struct{}{}, nil
				})
				passed <- "returned"
			}()
			through := <-passed
			require.NoError(t, lookErr)
			require.NotEmpty(t, during.value, "it was held while the function ran")
			absentBy(t, n.server, name, left.Add(50*time.Millisecond))
			if name == "panic" {
				assert.Equal(t, "out of here", through, "the panic passes through")
			} else {
				assert.Nil(t, through, "Goexit passes through")
			}
		})
	}
}
