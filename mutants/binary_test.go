package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Servers that tests have started must not outlive a run, however it ends.
func TestARunEndsAllThatItStarted(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		line    string
		timeout time.Duration
		want    outcome
	}{
		"at the first failure": {
			"echo '--- FAIL: TestX (0.00s)'; sleep 600", time.Minute,
			outcome{failed: true, tests: []string{"TestX"}},
		},
		"after the timeout": {
			"sleep 600", 5 * time.Second,
			outcome{failed: true, hung: true},
		},
		"when it has failed": {"exit 1", time.Minute, outcome{failed: true}},
		"when it has passed": {"exit 0", time.Minute, outcome{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			alive, binary := filepath.Join(folder, "alive"), filepath.Join(folder, "a.test")
			require.NoError(t, syscall.Mkfifo(alive, 0o600))
			// a child begun meanwhile would have the program open for
			// writing, and bar it from being run
			syscall.ForkLock.RLock()
			err := os.WriteFile(binary,
				[]byte("#!/bin/sh\nexec 3>"+alive+"\nsleep 600 &\n"+tt.line+"\n"), 0o700)
			syscall.ForkLock.RUnlock()
			require.NoError(t, err)
			ended := make(chan error, 1)
			go func() { // reads until no process has it open any more
				f, err := os.Open(alive)
				if err == nil {
					_, err = io.Copy(io.Discard, f)
					_ = f.Close()
				}
				ended <- err
			}()
			got, err := tree{root: folder, temp: folder}.run(t.Context(),
				order{binary: binary, timeout: tt.timeout})
			require.NoError(t, err)
			got.output, got.took = "", 0
			assert.Equal(t, tt.want, got)
			require.NoError(t, <-ended)
			files, err := os.ReadDir(folder)
			require.NoError(t, err)
			assert.Len(t, files, 2, "what it left in its temporary folder is gone")
		})
	}
}
