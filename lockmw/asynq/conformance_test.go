package asynqmw_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/jobtest"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestAdapterOfJobs(t *testing.T) {
	t.Parallel()
	jobtest.Run(t, func(t *testing.T) jobtest.Framework {
		return framework{newDatabase(t, redistest.Start(t), 0)}
	})
}

// framework is asynq, on a Redis of its own.
type framework struct{ *env }

func (f framework) Serve(
	k *renewer.Keeper, n int, work func(context.Context, jobtest.Job) error, opts ...jobs.Option,
) (stop func()) {
	own := []option{inLine(f.redis()), requeue(f.redis())}
	for _, o := range opts {
		own = append(own, o)
	}
	h := handle(k, func(j jobtest.Job) string { return j.Key }, work, own...)
	server := asynq.NewServer(f.redis(), asynqmw.Decorate(workers(n)))
	require.NoError(f.t, server.Start(h))
	stop = sync.OnceFunc(server.Shutdown)
	f.t.Cleanup(stop)
	return stop
}

func (f framework) Enqueue(j jobtest.Job) {
	payload, err := json.Marshal(j)
	require.NoError(f.t, err)
	opts := []asynq.Option{asynq.TaskID(j.Name), asynq.Retention(time.Hour)}
	if j.Last {
		opts = append(opts, asynq.MaxRetry(0))
	}
	_, err = f.client.Enqueue(asynqmw.NewTask("order", payload), opts...)
	require.NoError(f.t, err)
}

func (f framework) Cancel(name string) {
	require.NoError(f.t, f.inspector.CancelProcessing(name))
}

func (f framework) Remove(name string) {
	f.awaitState(name, asynq.TaskStateRetry)
	require.NoError(f.t, f.inspector.DeleteTask("default", name))
}

func (f framework) Left() int {
	queue, err := f.inspector.GetQueueInfo("default")
	require.NoError(f.t, err)
	return queue.Size - queue.Completed - queue.Archived
}

func (f framework) Failed() int {
	queue, err := f.inspector.GetQueueInfo("default")
	require.NoError(f.t, err)
	return queue.FailedTotal
}
