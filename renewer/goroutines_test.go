package renewer_test

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// quitter ends the engine's goroutine that tells it of a loss.
type quitter struct{ renewer.NopObserver }

func (quitter) Lost(context.Context, renewer.Lost) { runtime.Goexit() }

const quitterVariable = "TEST_QUITTER"

// A keeper does not live on without one of its goroutines: the process ends and
// says why.
func TestAGoroutineOfTheEngineIsNotLostInSilence(t *testing.T) {
	t.Parallel()
	if os.Getenv(quitterVariable) != "" {
		k, err := renewer.New(script.New(),
			renewer.Config{
				TTL: 100 * time.Millisecond, MaxHold: 50 * time.Millisecond,
				Observer: quitter{},
			})
		require.NoError(t, err)
		_, err = k.Acquire(context.Background(), renewer.Request{Name: "a"})
		require.NoError(t, err)
		<-t.Context().Done() // which never comes
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), quitterVariable+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.NoError(t, ctx.Err(), "it lives on")
	require.Contains(t, string(out), "an Observer or a Store has ended a goroutine of the engine")
}
