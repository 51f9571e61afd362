package page_test

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/inspect/page"
	"github.com/lockbeat/lockbeat/internal/testutil/webtest"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// piped is a network inside of a bubble. It buffers nothing.
type piped struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l *piped) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *piped) Close() error   { close(l.done); return nil }
func (l *piped) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// The server's WriteTimeout ends no stream, and a client that reads nothing
// ends its own.
func TestStreamOutlivesWriteTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t, &fake{locks: []store.Lock{held("a", 1, 0)}}, page.Config{})
		ended := make(chan struct{}, 2)
		l := &piped{conns: make(chan net.Conn), done: make(chan struct{})}
		s := &http.Server{
			WriteTimeout: 5 * time.Second,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				p.ServeHTTP(w, r)
				ended <- struct{}{}
			}),
		}
		go func() { _ = s.Serve(l) }()
		defer func() { p.Close(); _ = s.Shutdown(context.WithoutCancel(t.Context())) }()
		connect := func() net.Conn {
			client, server := net.Pipe()
			l.conns <- server
			_, err := client.Write([]byte("GET /events HTTP/1.1\r\nHost: x\r\n\r\n"))
			require.NoError(t, err)
			return client
		}
		quick, deaf := connect(), connect()
		defer deaf.Close() //nolint:errcheck // a test's
		lines := make(chan string, 1000)
		go func() {
			for in := bufio.NewScanner(quick); in.Scan(); {
				lines <- in.Text()
			}
		}()
		<-time.After(time.Minute)
		assert.Len(t, ended, 1, "only that of the client that reads nothing")
		events := 0
		for len(lines) > 0 {
			if line := <-lines; strings.HasPrefix(line, "event: locks") {
				events++
			}
		}
		assert.GreaterOrEqual(t, events, 59)
		require.NoError(t, quick.Close())
		<-time.After(time.Minute)
		assert.Len(t, ended, 2)
	})
}

func TestStreamOverHTTP(t *testing.T) {
	t.Parallel()
	for protocol, edit := range webtest.Protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			p := newPage(t, &fake{locks: []store.Lock{held("a", 1, 0)}}, page.Config{})
			s := webtest.Serve(t, p, edit, func(s *httptest.Server) {
				s.Config.RegisterOnShutdown(p.Close)
			})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/events", http.NoBody)
			require.NoError(t, err)
			res, err := s.Client().Do(r)
			require.NoError(t, err)
			defer res.Body.Close() //nolint:errcheck // a test's
			assert.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
			in := bufio.NewScanner(res.Body)
			for in.Scan() && in.Text() != "event: locks" {
				continue
			}
			require.NoError(t, in.Err())
			require.NoError(t, s.Config.Shutdown(t.Context()), "it waits for no stream")
			for in.Scan() {
				continue
			}
		})
	}
}
