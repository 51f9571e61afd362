// River writes invoices for 20 tenants: jobs of River's on PostgreSQL, on two
// clients, beside an HTTP route that writes credit notes. Each document gets
// the tenant's next number. So of each tenant's one may be written at a time,
// by a job or by a request. The locks are in Redis.
//
//	go run ./examples/river                          # Redis runs inside the program
//	go run ./examples/river -redis localhost:6379    # on your own, left as it was found
//
// PostgreSQL is a server that the program starts, if it is installed, or the
// database that DATABASE_URL names, in a schema that is dropped in the end. The
// exit status is 1 if a number is missing or was given twice, or if a job was
// lost or counted.
//
// Read app.go first: it is what you would write. main.go plays the crowd, and
// counts.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

const (
	tenants  = 20
	invoices = 10 // of each
	credits  = 3  // of each
)

func main() {
	demo.Main(demo.Setting{Program: "river"}, func(ctx context.Context, d *demo.Demo) error {
		return tell(ctx, d, os.Getenv("DATABASE_URL"))
	})
}

func tell(ctx context.Context, d *demo.Demo, database string) error {
	pool, err := openDatabase(ctx, d, database)
	if err != nil {
		return err
	}
	d.Print("Two clients of River write %d invoices for each of %d tenants, and a route writes %d "+
		"credit notes for each. Redis: %s.", invoices, tenants, credits, d.Where())
	client, addr, err := start(ctx, d, pool)
	if err != nil {
		return err
	}
	var params []river.InsertManyParams
	for i := range tenants * invoices {
		params = append(params, river.InsertManyParams{Args: Invoice{tenant(i % tenants)}})
	}
	begun := time.Now()
	if _, err := client.InsertMany(ctx, params); err != nil {
		return err
	}
	answered := ask(ctx, addr)
	f, err := await(ctx, pool)
	if err != nil {
		return err
	}
	d.Print("It took %s. River put %d of %d jobs back, to stand in line: %d times in all.",
		demo.Span(time.Since(begun)), f.waited, len(params), f.snoozes)
	all := tenants * (invoices + credits)
	d.Claim("documents written", f.documents == all, "%d of %d", f.documents, all)
	d.Claim("numbers given twice", f.twice == 0, "%d", f.twice)
	d.Claim("requests answered with 200", answered == tenants*credits, "%d", answered)
	d.Claim("jobs not completed", f.unrun == 0, "%d", f.unrun)
	d.Claim("attempts used up by waiting", f.counted == 0, "%d", f.counted)
	return nil
}

func tenant(i int) string { return fmt.Sprintf("tenant-%02d", i+1) }

// start starts two clients and the route's server, each with a keeper of its
// own.
func start(
	ctx context.Context, d *demo.Demo, pool *pgxpool.Pool,
) (client *river.Client[pgx.Tx], addr string, err error) {
	for _, node := range []string{"client-1", "client-2"} {
		keeper, err := d.Keeper(node, nil)
		if err != nil {
			return nil, "", err
		}
		client, err = newClient(pool, worker(keeper, pool))
		if err != nil {
			return nil, "", err
		}
		if err := client.Start(context.WithoutCancel(ctx)); err != nil {
			return nil, "", err
		}
		d.AtEnd(client.Stop)
	}
	keeper, err := d.Keeper("web", nil)
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{Handler: routes(keeper, pool), ReadHeaderTimeout: 5 * time.Second}
	addr, err = d.Serve(server.Serve, server.Shutdown)
	return client, addr, err
}

// ask asks for the credit notes, all at once, and returns how many requests
// were answered with 200.
func ask(ctx context.Context, addr string) int {
	var answered atomic.Int64
	var all sync.WaitGroup
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	for i := range tenants * credits {
		all.Go(func() {
			url := "http://" + addr + "/tenants/" + tenant(i%tenants) + "/credits"
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
			if err != nil {
				return
			}
			response, err := client.Do(request)
			if err != nil {
				return
			}
			if response.Body.Close() == nil && response.StatusCode == http.StatusOK {
				answered.Add(1)
			}
		})
	}
	all.Wait()
	return int(answered.Load())
}

// await waits until all jobs are completed.
func await(ctx context.Context, pool *pgxpool.Pool) (found, error) {
	for {
		f, err := look(ctx, pool)
		if err != nil || f.unrun == 0 {
			return f, err
		}
		if _, err := demo.Wait(ctx, time.After(20*time.Millisecond)); err != nil {
			return f, err
		}
	}
}
