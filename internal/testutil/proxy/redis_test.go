package proxy_test

import (
	"bytes"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// TestDropReplyToIsExact counts replies on one connection with a push among
// them, in one packet.
func TestDropReplyToIsExact(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := proxy.Start(t, server.Addr())
	p.Delay(soon)
	p.DropReplyTo(func(request []byte) bool {
		return bytes.Contains(request, []byte("victim"))
	}, 1, proxy.ThenReset)
	conn := dial(t, p.Addr())
	send(t, conn, command("HELLO", "3")+command("SUBSCRIBE", "c")+command("SET", "a", "1")+
		command("INCR", "a")+
		command("INCR", "victim")+command("INCR", "b"))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(bound)))
	got, err := io.ReadAll(conn)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, afterHello, found := bytes.Cut(got, []byte(">3\r\n$9\r\nsubscribe\r\n"))
	require.True(t, found, "%q", got)
	assert.Equal(t, "$1\r\nc\r\n:1\r\n+OK\r\n:2\r\n", string(afterHello),
		"all before the victim, late but whole")
	require.Eventually(t, func() bool {
		n, err := server.Do("EXISTS", "victim", "b").AsInt64()
		return err == nil && n == 2
	}, bound, time.Millisecond, "the server reads all that was sent")
}

func command(args ...string) string {
	text := fmt.Sprintf("*%d\r\n", len(args))
	for _, arg := range args {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	return text
}
