package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	_ "modernc.org/sqlite"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

// What a server tells the story.
const (
	serves  = "serves"  // with its address
	charges = "charges" // and has not answered yet
	ended   = ""        // its process has
)

// runServer is the process of a server, which works with the database in a file.
func runServer(ctx context.Context, n *demo.Node, file string) (err error) {
	db, err := open(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	handler, err := routes(n.Keeper, db, bank{work: func() {
		n.Tell(charges, 1, "")
		<-time.After(5 * time.Millisecond)
	}})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	n.Tell(serves, 0, listener.Addr().String())
	server := newServer(handler)
	stopped := make(chan error, 1)
	go func() {
		<-ctx.Done()
		stopped <- server.Shutdown(context.WithoutCancel(ctx))
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}
