//go:build linux

package run_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answering is a server that answers every command with one error.
func answering(t *testing.T, text string) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				for s := bufio.NewScanner(conn); s.Scan(); {
					if strings.HasPrefix(s.Text(), "*") { // a command begins
						_, _ = fmt.Fprintf(conn, "!%d\r\n%s\r\n", len(text), text)
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// What a server says can neither command the terminal nor write a line of its
// own: in the warning while it is waited for as little as in the error.
func TestServerCanWriteNoLine(t *testing.T) {
	t.Parallel()
	address := answering(t, "LOADING wait\nlockbeat: warning: all is well\r\x1b]0;owned\x07\x1b[31m")
	_, stderr, status := outcome(t, address, "--name=k", "--wait=600ms", "--", "true")
	assert.Equal(t, 69, status)
	lines := strings.SplitAfter(stderr, "\n")
	require.Len(t, lines, 3, "a warning, an error, and no more: %s", stderr)
	for i, prefix := range []string{"lockbeat: warning: lock store", "lockbeat: lock store", ""} {
		assert.True(t, strings.HasPrefix(lines[i], prefix), lines[i])
		for _, r := range strings.TrimSuffix(lines[i], "\n") {
			assert.True(t, unicode.IsPrint(r), "%q", r)
		}
	}
}
