package libraries_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/hibiken/asynq"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/embedded"
)

// enqueueReport returns the job: it enqueues the task of its tick, and tries again itself while
// asynq's Redis is away. It ends with its context.
func enqueueReport(client *asynq.Client) func(context.Context) error {
	return func(ctx context.Context) error {
		run := cronmw.Current(ctx) // the tick: the same on every node
		for {
			err := asynqmw.EnqueueOnce(ctx, client, run.Job, run.Due, asynq.NewTask("report", nil))
			if err == nil || ctx.Err() != nil {
				return err
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// A job that enqueues exactly one task a tick. TakeOver has another node try for that tick if this
// one is stopped or dies meanwhile, and RunIfMissed when all were down.
func Example_asynq() {
	redis, err := embedded.Start() // in production a server
	if err != nil {
		panic(err)
	}
	defer redis.Close()
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: redis.Addr()})
	defer func() { _ = client.Close() }()

	ctx := context.Background()
	keeper, err := renewer.New(memory.New(), renewer.Config{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = keeper.Shutdown(ctx) }()
	node, err := cronmw.New(ctx, keeper)
	if err != nil {
		panic(err)
	}
	job, err := node.Job("nightly", cronmw.Every(time.Second),
		enqueueReport(client), cronmw.TakeOver(3), cronmw.RunIfMissed())
	if err != nil {
		panic(err)
	}
	for range 3 { // in production a scheduler, and on several nodes: the rest is skipped
		job.Fire(ctx)
		job.Fire(ctx)
	}

	inspector := asynq.NewInspector(asynq.RedisClientOpt{Addr: redis.Addr()})
	defer func() { _ = inspector.Close() }()
	tasks, err := inspector.ListPendingTasks("default")
	fmt.Println("tasks of ticks:", len(tasks) > 0, err)
	// Output: tasks of ticks: true <nil>
}

// With chi the lock goes where routes are made: on r.With, or r.Use below r.Route.
func Example_chi() {
	ctx := context.Background()
	// in production redisstore in place of memory
	keeper, err := renewer.New(memory.New(), renewer.Config{TTL: renewer.DefaultTTL})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = keeper.Shutdown(ctx) }()
	transfer := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, "from account ", chi.URLParam(r, "id"))
	}

	r := chi.NewRouter()
	r.With(httpmw.Middleware(keeper, httpmw.PathInt("account", "id"))).Post("/accounts/{id}/transfer",
		transfer)

	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodPost, "/accounts/7/transfer",
		http.NoBody))
	fmt.Println(w.Code, w.Body)
	// Output: 200 from account 7
}
