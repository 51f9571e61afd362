package worker_test

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
)

// The goroutines of connections that rueidis has started are not the worker's to end; all others
// are.
func TestStartedGoroutines(t *testing.T) {
	t.Parallel()
	const mine = "goroutine 1 [running]:\nmain.main()\n\t/main.go:23 +0x5b\n"
	by := func(what string) string {
		return "\ngoroutine 7 [IO wait]:\nnet.Read()\ncreated by " + what + " in goroutine 5\n\t/x.go:1\n"
	}
	assert.Equal(t, 1, worker.Started(mine))
	assert.Equal(t, 1, worker.Started(mine+by("github.com/redis/rueidis.(*pipe)._background")))
	assert.Equal(t, 2, worker.Started(mine+by("github.com/lockbeat/lockbeat/renewer.New")))
	text := make([]byte, 1<<20)
	assert.GreaterOrEqual(t, worker.Started(string(text[:runtime.Stack(text, true)])), 2,
		"this test, and the one that runs it")
}
