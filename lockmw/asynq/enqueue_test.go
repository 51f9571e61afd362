package asynqmw_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
)

var due = time.Date(2026, 3, 29, 2, 0, 0, 0, time.UTC)

// Nodes call at the same time, from time zones of their own, and again when the
// task is done.
func TestOneTaskATick(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	report := asynq.NewTask("report", nil)
	const nodes = 8
	ended := outcomes(nodes)
	for node := range nodes {
		go func() {
			zone := time.FixedZone("", node*3600)
			ended[node] <- asynqmw.EnqueueOnce(t.Context(), e.client, "nightly", due.In(zone),
				report)
		}()
	}
	for node := range nodes {
		require.NoError(t, <-ended[node])
	}
	info, err := e.inspector.GetQueueInfo("default")
	require.NoError(t, err)
	assert.Equal(t, 1, info.Size)

	var runs atomic.Int64
	e.start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		runs.Add(1)
		return nil
	}), configure(workers(4)))
	id := "report:nightly:20260329T020000Z"
	done := e.awaitState(id, asynq.TaskStateCompleted)
	assert.Equal(t, 24*time.Hour, done.Retention)
	require.NoError(t, asynqmw.EnqueueOnce(t.Context(), e.client, "nightly", due, report))
	assert.Equal(t, asynq.TaskStateCompleted, e.await(id, isThere).State)

	for id, other := range map[string]struct {
		typ, job string
		due      time.Time
	}{
		"report:nightly:20260329T020001Z":     {"report", "nightly", due.Add(time.Second)},
		"report:nightly:20260329T020000.001Z": {"report", "nightly", due.Add(time.Millisecond)},
		"report:hourly:20260329T020000Z":      {"report", "hourly", due},
		"mail:nightly:20260329T020000Z":       {"mail", "nightly", due},
	} {
		require.NoError(t, asynqmw.EnqueueOnce(t.Context(), e.client, other.job, other.due,
			asynq.NewTask(other.typ, nil), asynq.Retention(time.Minute)))
		assert.Equal(t, time.Minute, e.awaitState(id, asynq.TaskStateCompleted).Retention)
	}
	assert.EqualValues(t, 5, runs.Load())
}

func isThere(*asynq.TaskInfo) bool { return true }

func TestTickThatCantBeEnqueued(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	report := asynq.NewTask("report", nil)
	enqueue := func(c *asynq.Client, job string, due time.Time, task *asynq.Task,
		opts ...asynq.Option,
	) error {
		return asynqmw.EnqueueOnce(t.Context(), c, job, due, task, opts...)
	}
	for name, err := range map[string]error{
		"no client":  enqueue(nil, "nightly", due, report),
		"no job":     enqueue(e.client, "", due, report),
		"no instant": enqueue(e.client, "nightly", time.Time{}, report),
		"no task":    enqueue(e.client, "nightly", due, nil),
		"an ID":      enqueue(e.client, "nightly", due, report, asynq.TaskID("x")),
		"Unique":     enqueue(e.client, "nightly", due, report, asynq.Unique(time.Hour)),
		"a group":    enqueue(e.client, "nightly", due, report, asynq.Group("x")),
	} {
		require.ErrorIs(t, err, renewer.ErrConfig, name)
	}
	e.Kill()
	err := enqueue(e.client, "nightly", due.Add(time.Hour), report)
	require.ErrorContains(t, err, `enqueuing the task of "nightly" due at 2026-03-29 03:00`)
	require.NoError(t, e.Restart())
	require.NoError(t, enqueue(e.client, "nightly", due.Add(time.Hour), report))
}
