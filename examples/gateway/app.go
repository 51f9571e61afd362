package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// What the model server can bear at once.
const (
	ofUser = 3
	inAll  = 20
	urgent = 6 // beside these
	// share is how many urgent ones a replica admits while Redis is away:
	// urgent / replicas.
	share = 2
)

// gateway passes streams of server-sent events on from a model server.
type gateway struct {
	keeper            *renewer.Keeper
	upstream, replica string
}

// routes are what a replica answers to. A stream keeps its slots until the
// handler returns.
func (g gateway) routes() http.Handler {
	chat := func(r *http.Request) lockmw.Set {
		user := lockmw.Key("user", r.PathValue("user"))
		return lockmw.All(lockmw.Limit(user, ofUser), lockmw.Limit("all", inAll))
	}
	most := func(*http.Request) lockmw.Set { return lockmw.Limit("urgent", urgent) }
	// A client waits for 3 s, and gets 429, or 503 while Redis is away. A
	// stream that has lost its slot does not look whole.
	wait, strict := lockmw.Wait(3*time.Second), lockmw.Strict()
	ours := lockmw.LocalShare(share)

	mux := http.NewServeMux()
	mux.Handle("GET /chat/{user}", httpmw.Middleware(g.keeper, chat, wait, strict)(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.stream(w, r, "all", "user:"+r.PathValue("user"), g.replica)
		})))
	mux.Handle("GET /urgent", httpmw.Middleware(g.keeper, most, wait, strict, ours)(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			g.stream(w, r, "urgent on "+g.replica)
		})))
	return mux
}

// stream has the model server answer, which counts the stream for all of these.
func (g gateway) stream(w http.ResponseWriter, r *http.Request, countsFor ...string) {
	query := url.Values{"for": countsFor, "events": {r.FormValue("events")}}
	stream := g.upstream + "/" + rand.Text() + "?" + query.Encode()
	res, err := send(context.WithoutCancel(r.Context()), http.MethodGet, stream)
	if err != nil {
		http.Error(w, "the model server does not answer", http.StatusBadGateway)
		return
	}
	defer res.Body.Close() //nolint:errcheck // it was read to its end
	// When the client hangs up, or the slot is lost, the stream is told to
	// stop, and then read to its end: its slot must not be free while the model
	// server is still at it.
	stop := context.AfterFunc(r.Context(), func() {
		if res, err := send(context.Background(), http.MethodDelete, stream); err == nil {
			_ = res.Body.Close()
		}
	})
	defer stop()
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		// the client may have gone
		_, _ = fmt.Fprintf(w, "%s\n", lines.Text())
		_ = flusher.Flush()
	}
}

// client has no connections that lie idle.
var client = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func send(ctx context.Context, method, to string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, http.NoBody)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// runReplica is a process of the gateway. n.Tell says where it listens.
func runReplica(ctx context.Context, n *demo.Node, upstream string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := newServer(gateway{n.Keeper, upstream, n.Name}.routes())
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	n.Tell("listens", 0, "http://"+listener.Addr().String())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// newServer has no WriteTimeout, since a stream may take long:
// renewer.Config.MaxHold bounds it.
func newServer(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
}
