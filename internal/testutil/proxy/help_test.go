package proxy_test

import (
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	soon  = 100 * time.Millisecond // how long silence is listened to
	bound = 10 * time.Second       // for what must happen
)

// echo is a server that sends back what it gets, and counts the bytes.
type echo struct {
	addr string
	got  atomic.Int64
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{addr: listener.Addr().String()}
	t.Cleanup(func() { require.NoError(t, listener.Close()) })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				// ends with the connection
				_, _ = io.Copy(conn, io.TeeReader(conn, counter{&e.got}))
			}()
		}
	}()
	return e
}

type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}

func (e *echo) awaitGot(t *testing.T, n int64) {
	t.Helper()
	require.Eventually(t, func() bool { return e.got.Load() == n }, bound, time.Millisecond)
}

func dial(t *testing.T, addr string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() }) // some tests close it themselves
	return conn.(*net.TCPConn)
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	_, err := conn.Write([]byte(text))
	require.NoError(t, err)
}

func receive(t *testing.T, conn net.Conn, want string) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(bound)))
	got := make([]byte, len(want))
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func silent(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(soon)))
	n, err := conn.Read(make([]byte, 1))
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "%v", err)
	require.Zero(t, n)
}

// cut makes sure that the connection was reset, not ended in good order.
func cut(t *testing.T, conn net.Conn) {
	t.Helper()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(bound)))
	_, err := io.Copy(io.Discard, conn)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}
