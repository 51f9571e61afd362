package asynqmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// Tasks know when they were made, each later than the one before, beside the
// headers of their own.
func TestNewTask(t *testing.T) {
	t.Parallel()
	before := time.Now().UnixMicro()
	var last int64
	for range 100 {
		task := asynqmw.NewTask("order", []byte("1"), asynq.MaxRetry(3))
		assert.Equal(t, "order", task.Type())
		assert.Equal(t, []byte("1"), task.Payload())
		task.Headers()["own"] = "header"
		require.Greater(t, asynqmw.RankOf(task), last)
		last = asynqmw.RankOf(task)
	}
	assert.GreaterOrEqual(t, last, before)
	assert.LessOrEqual(t, last, time.Now().UnixMicro())
	for header, want := range map[string]int64{"": 0, "x": 0, "-7": 0, "0": 0, "7": 7} {
		task := asynq.NewTaskWithHeaders("order", nil, map[string]string{"Lockbeat-Rank": header})
		assert.Equal(t, want, asynqmw.RankOf(task), header)
	}
	assert.Zero(t, asynqmw.RankOf(asynq.NewTask("order", nil)))
	ahead := asynq.NewTaskWithHeaders("order", nil,
		map[string]string{"Lockbeat-Rank": "9000000000000000000"})
	assert.LessOrEqual(t, asynqmw.RankOf(ahead), time.Now().UnixMicro(), "its clock is ahead")
}

// A task that has failed, and is tried again after a newer one has run, is
// done, unrun. The newest is tried again.
func TestARetryOfAnOlderTask(t *testing.T) {
	t.Parallel()
	for name, newest := range map[string]jobs.Option{
		"Latest": lockmw.Latest(), "Replace": lockmw.Replace(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			ran := make(chan string, 10)
			e.serve(e.keeper(), wrap(byUser, func(ctx context.Context, _ order) error {
				id, _ := asynq.GetTaskID(ctx)
				ran <- id
				if retried, _ := asynq.GetRetryCount(ctx); retried == 0 {
					return errDisk
				}
				return nil
			}, newest), workers(2))
			fails := func() (id string) {
				info, err := e.client.Enqueue(asynqmw.NewTask("order", []byte(`{"User":"u1"}`)),
					asynq.Retention(time.Hour))
				require.NoError(t, err)
				require.Equal(t, info.ID, <-ran)
				e.awaitState(info.ID, asynq.TaskStateRetry)
				return info.ID
			}
			older, newer := fails(), fails()
			for _, id := range []string{older, newer} {
				require.NoError(t, e.inspector.RunTask("default", id))
				e.awaitState(id, asynq.TaskStateCompleted)
			}
			require.Len(t, ran, 1, "the older one did not run again")
			assert.Equal(t, newer, <-ran)
		})
	}
}
