package sql_test

import (
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	socketName    = ".s.PGSQL.5432"
	cancelRequest = 80877102 // PostgreSQL's number of the message by which a client ends a query
)

// wire is between clients and a PostgreSQL server, and can be cut or fall silent.
type wire struct {
	dsn    string
	server string // the socket's path
	silent atomic.Bool
	over   chan struct{} // closed in the end

	mu      sync.Mutex
	clients []net.Conn
	servers []net.Conn
}

func newWire(t *testing.T, dsn string) *wire {
	t.Helper()
	host, rest, _ := strings.Cut(strings.TrimPrefix(dsn, "host="), " ")
	dir := t.TempDir()
	w := &wire{
		dsn: "host=" + dir + " " + rest, server: filepath.Join(host, socketName),
		over: make(chan struct{}),
	}
	l, err := net.Listen("unix", filepath.Join(dir, socketName))
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { w.serve(client) })
		}
	})
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		w.cut()
		close(w.over)
		w.end()
		serving.Wait()
	})
	return w
}

// serve carries one connection. It drops requests to end another one's query, so that the server
// goes on with what was cut off.
func (w *wire) serve(client net.Conn) {
	w.mu.Lock()
	w.clients = append(w.clients, client)
	w.mu.Unlock()
	defer func() { _ = client.Close() }()
	var head [8]byte
	if _, err := io.ReadFull(client, head[:]); err != nil ||
		binary.BigEndian.Uint32(head[4:]) == cancelRequest {
		return
	}
	server, err := net.Dial("unix", w.server)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	w.mu.Lock()
	w.servers = append(w.servers, server)
	w.mu.Unlock()
	if _, err := server.Write(head[:]); err != nil {
		return
	}
	var asking sync.WaitGroup
	asking.Go(func() { _, _ = io.Copy(asker{w, server}, client) })
	_, _ = io.Copy(client, server) // also when the client has gone: until the server's answer
	_ = client.Close()
	asking.Wait()
}

// asker is a server as clients reach it by a wire.
type asker struct {
	w      *wire
	server net.Conn
}

func (a asker) Write(b []byte) (int, error) {
	if a.w.silent.Load() {
		<-a.w.over
	}
	return a.server.Write(b)
}

// cut ends the connections of all clients. The server is not told before it answers.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, client := range w.clients {
		_ = client.Close()
	}
	w.clients = nil
}

// end tells the server that all clients have gone, of which it may wait for a word.
func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, server := range w.servers {
		_ = server.Close()
	}
}
