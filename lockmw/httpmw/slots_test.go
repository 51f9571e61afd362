package httpmw_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// piped is a listener in memory, so that in a bubble its clock is that of both
// sides.
type piped struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p piped) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p piped) Close() error   { close(p.done); return nil }
func (p piped) Addr() net.Addr { return &net.IPAddr{} }

// dial sends a request to a handler, and returns the connection when the
// handler's first line has come. hangUp cancels the contexts of all requests.
func dial(t *testing.T, h http.Handler) (client net.Conn, hangUp func()) {
	t.Helper()
	base, cancel := context.WithCancel(t.Context())
	p := piped{make(chan net.Conn), make(chan struct{})}
	s := &http.Server{
		Handler: h, BaseContext: func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: soon,
	}
	quiet(&httptest.Server{Config: s})
	served := make(chan error, 1)
	go func() { served <- s.Serve(p) }()
	client, server := net.Pipe()
	p.conns <- server
	t.Cleanup(func() {
		cancel()
		_ = client.Close()
		_ = s.Close()
		assert.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	_, err := io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	for r := bufio.NewReader(client); ; {
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		if line == "data: begun\n" {
			return client, cancel
		}
	}
}

// events is a handler of server-sent events, which goes on until its client has
// gone, or fails when it is told.
func events(tell <-chan func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: begun\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case end := <-tell:
			end()
		}
	})
}

// socket is a handler that takes the connection over, as one of a WebSocket
// does.
func socket(tell <-chan func()) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(err)
		}
		defer func() { _ = conn.Close() }()
		defer context.AfterFunc(r.Context(), func() { _ = conn.Close() })()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\ndata: begun\n")
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = io.Copy(io.Discard, conn)
		}()
		select {
		case <-gone:
		case end := <-tell:
			end()
		}
	})
}

// A stream keeps its slot to its end, however long, and the slot is free then,
// whatever the end.
func TestAStreamKeepsItsSlot(t *testing.T) {
	t.Parallel()
	handlers := map[string]func(<-chan func()) http.Handler{"events": events, "socket": socket}
	options := map[string][]httpmw.Option{"": nil, ", wrapped": {lockmw.Strict()}}
	for end, bring := range map[string]func(client net.Conn, hangUp func(), tell chan<- func()){
		"the client has gone": func(client net.Conn, _ func(), _ chan<- func()) {
			_ = client.Close()
		},
		"the request is cancelled": func(_ net.Conn, hangUp func(), _ chan<- func()) { hangUp() },
		"the handler returns": func(_ net.Conn, _ func(), tell chan<- func()) {
			tell <- func() {}
		},
		"the handler panics": func(_ net.Conn, _ func(), tell chan<- func()) {
			tell <- func() { panic("boom") }
		},
		"the slot is lost": func(net.Conn, func(), chan<- func()) {
			<-time.After(10 * time.Minute) // MaxHold
		},
	} {
		for handler, of := range handlers {
			for wrapped, opts := range options {
				t.Run(handler+", "+end+wrapped, func(t *testing.T) {
					t.Parallel()
					limited(t, func(t *testing.T, k *renewer.Keeper) {
						two := lockmw.Limit("a", 2)
						defer fill(t, k, two)()
						tell := make(chan func(), 1)
						client, hangUp := dial(t, httpmw.Middleware(k, byName(two),
							append(opts, lockmw.MaxHold(10*time.Minute))...)(of(tell)))
						// the client reads what comes, such as the end
						go func() { _, _ = io.Copy(io.Discard, client) }()
						<-time.After(3 * k.Config().TTL)
						err := lockmw.Run(t.Context(), k, two, noop, lockmw.Refuse())
						require.ErrorIs(t, err, renewer.ErrBusy)
						bring(client, hangUp, tell)
						synctest.Wait()
						fill(t, k, two)()
					})
				})
			}
		}
	}
}
