package asynqmw_test

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
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
