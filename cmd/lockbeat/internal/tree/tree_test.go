//go:build linux

package tree_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/tree"
)

// asReaper is set for a process that is to adopt and end, which the tests' own
// must not: it would take their children from os/exec.
const asReaper = "TEST_AS_REAPER"

func TestMain(m *testing.M) {
	if script := os.Getenv(asReaper); script != "" {
		os.Exit(reap(script))
	}
	goleak.VerifyTestMain(m)
}

// reap runs a script until its first process has ended, and ends what is left
// but a child that was there before. It returns 0 if only that is left.
func reap(script string) int {
	before := exec.Command("sleep", "1000")
	if before.Start() != nil {
		return 2
	}
	t, err := tree.Adopt()
	if err != nil {
		return 3
	}
	pid, err := syscall.ForkExec("/bin/sh", []string{"sh", "-c", script}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 4
	}
	t.Command(pid, true)
	gone, first := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		t.Watch(func(child int, _ syscall.WaitStatus) {
			if child == pid {
				close(first)
			}
		})
	}()
	<-first
	t.Kill(gone, nil)
	if before.Process.Signal(syscall.Signal(0)) != nil {
		return 5 // it was not to be ended
	}
	_ = before.Process.Kill()
	return 0
}

// A process that starts another and ends, without an end, is caught all the
// same; so are generations of orphans. A child of before is spared.
func TestKill(t *testing.T) {
	t.Parallel()
	hop := filepath.Join(t.TempDir(), "hop")
	require.NoError(t, os.WriteFile(hop, []byte("#!/bin/sh\nsetsid \"$0\" &\n"), 0o700))
	for name, script := range map[string]string{
		"hopping": hop,
		"orphans": "for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'sleep 1000 & sleep 1000' &); done",
		"nothing": "true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			self, err := os.Executable()
			require.NoError(t, err)
			cmd := exec.CommandContext(t.Context(), self)
			cmd.Env = append(os.Environ(), asReaper+"="+script)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			ended := make(chan error, 1)
			go func() {
				_, _ = out.Read(make([]byte, 1)) // until the last process that has it has ended
				ended <- cmd.Wait()
			}()
			select {
			case err := <-ended:
				assert.NoError(t, err)
			case <-time.After(30 * time.Second):
				_ = cmd.Process.Kill()
				assert.Fail(t, "it does not end", <-ended)
			}
		})
	}
}
