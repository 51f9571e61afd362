package redisstore_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// When there is no connection, rueidis dials under the context of
// the first caller. If that one gives up, the others try again.
func TestAnotherCallersContext(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	dialling, first := make(chan struct{}), atomic.Bool{}
	client := s.client(t, func(o *rueidis.ClientOption) {
		o.AlwaysPipelining, o.PipelineMultiplex = true, -1
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer,
			_ *tls.Config,
		) (net.Conn, error) {
			if first.CompareAndSwap(true, false) {
				close(dialling)
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	})
	store := storeOn(t, client)
	mine(t, store, claim("a", "a", time.Minute))
	first.Store(true)
	s.ok(t, "CLIENT", "KILL", "TYPE", "normal")
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan struct{})
	go func() {
		defer close(gaveUp)
		for ctx.Err() == nil {
			store.Renew(ctx, []contract.Hold{hold("b", "b", time.Minute)})
		}
	}()
	<-dialling
	answer := make(chan []contract.Answer)
	go func() {
		answer <- store.Renew(context.Background(), []contract.Hold{hold("a", "a", time.Minute)})
	}()
	select {
	case <-answer:
		t.Error("answered while there is no connection")
	case <-time.After(50 * time.Millisecond): // so that it waits for the dial of the other
	}
	cancel()
	assert.Equal(t, []contract.Answer{{Status: contract.StatusHeld}}, <-answer)
	<-gaveUp
}

// answering is the address of a server that answers each command as reply says.
func answering(t *testing.T, reply func(words []string) string) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
			go converse(conn, reply)
		}
	}()
	return listener.Addr().String()
}

// converse answers each command on a connection, until the client leaves.
func converse(conn net.Conn, reply func(words []string) string) {
	defer func() { _ = conn.Close() }()
	for in := bufio.NewReader(conn); ; {
		words, err := readCommand(in)
		if err == nil {
			_, err = io.WriteString(conn, reply(words))
		}
		if err != nil {
			return
		}
	}
}
