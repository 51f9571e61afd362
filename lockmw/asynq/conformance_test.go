package asynqmw_test

import (
	"context"
	"encoding/json"
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
	return f.serve(k, func(l *asynqmw.Locks) asynq.Handler {
		return asynqmw.Wrap(l, jobtest.Job.Lock, work, opts...)
	}, workers(n)).Shutdown
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
