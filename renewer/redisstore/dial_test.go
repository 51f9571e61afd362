package redisstore_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// countDials counts the connections that a client has made, and those that are
// open.
func countDials(dials, open *atomic.Int32) func(*rueidis.ClientOption) {
	return func(o *rueidis.ClientOption) {
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer,
			_ *tls.Config,
		) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "tcp", addr)
			if err != nil {
				return nil, err
			}
			dials.Add(1)
			open.Add(1)
			return &counted{Conn: conn, open: open}, nil
		}
	}
}

type counted struct {
	net.Conn
	open *atomic.Int32
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

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
	store, err := redisstore.NewEngine(client)
	require.NoError(t, err)
	t.Cleanup(store.Close)
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

// fake answers every command with what reply says, after the
// greeting, on one connection after another.
func fake(t *testing.T, reply func(args []string) string) rueidis.Client {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go converse(conn, reply)
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-done
	})
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{listener.Addr().String()}, ForceSingleClient: true,
		DisableCache: true, AlwaysRESP2: true,
		ClientSetInfo: rueidis.DisableClientSetInfo,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func converse(conn net.Conn, reply func(args []string) string) {
	defer func() { _ = conn.Close() }()
	r := bufio.NewReader(conn)
	for {
		args, err := readCommand(r)
		if err != nil {
			return
		}
		answer := "+OK\r\n"
		switch args[0] {
		case "HELLO":
			answer = "-ERR unknown command 'HELLO'\r\n"
		case "PING":
			answer = "+PONG\r\n"
		case "EVAL", "EVALSHA":
			answer = reply(args)
		}
		if _, err := io.WriteString(conn, answer); err != nil {
			return
		}
	}
}

// An answer for one script is not taken for that of another: with
// what renewals usually get, an acquire grants nothing.
func TestReplyOfAnotherScript(t *testing.T) {
	t.Parallel()
	store, err := redisstore.NewEngine(fake(t, func([]string) string { return "*0\r\n" }))
	require.NoError(t, err)
	t.Cleanup(store.Close)
	assert.Equal(t, contract.StatusUnknown, acquire(t, store, claim("a", "a", time.Minute)).Status)
	store, err = redisstore.NewEngine(fake(t, func([]string) string { return ":7\r\n" }))
	require.NoError(t, err)
	t.Cleanup(store.Close)
	assert.Equal(t, contract.StatusUnknown, renew(t, store, hold("a", "a", time.Minute)).Status)
}
