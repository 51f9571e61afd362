package renewer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// lined is a store with a line of tasks in which all are behind three others.
type lined struct {
	*memory.Store

	asked []renewer.TaskEvent
}

func (l *lined) Arrive(ctx context.Context, _ renewer.Arrival) (renewer.Arrived, error) {
	_, bounded := ctx.Deadline()
	if !bounded {
		return renewer.Arrived{}, context.DeadlineExceeded
	}
	return renewer.Arrived{Ahead: 3}, nil
}

func (l *lined) Next(
	_ context.Context, _ string, what renewer.TaskEvent, task renewer.Task,
) (renewer.NextTask, error) {
	l.asked = append(l.asked, what)
	return renewer.NextTask{Task: task, Wake: true, Parked: 1}, nil
}

func TestTaskLine(t *testing.T) {
	t.Parallel()
	store := &lined{Store: memory.New()}
	k, err := renewer.New(store, renewer.Config{TTL: time.Minute})
	require.NoError(t, err)
	assert.True(t, k.HasTaskLine())
	one := renewer.Task{Queue: "q", ID: "1"}

	arrived, err := k.Arrive(t.Context(), renewer.Arrival{Name: "a", Task: one})
	require.NoError(t, err)
	assert.Equal(t, 3, arrived.Ahead)
	next, err := k.NextTask(t.Context(), "a", renewer.TasksOver, renewer.Task{Home: "h"})
	require.NoError(t, err)
	assert.True(t, next.Wake)
	_, err = k.NextTask(t.Context(), "", renewer.TasksOver, one)
	require.ErrorIs(t, err, renewer.ErrName)
	_, err = k.Arrive(t.Context(), renewer.Arrival{Task: one})
	require.ErrorIs(t, err, renewer.ErrName)

	t.Log("Shutdown ends looks at the line, but not what becomes of tasks")
	require.NoError(t, k.Shutdown(t.Context()))
	_, err = k.NextTask(t.Context(), "a", renewer.TasksOver, renewer.Task{Home: "h"})
	require.ErrorIs(t, err, renewer.ErrShutdown)
	_, err = k.NextTask(t.Context(), "a", renewer.TaskGranted, one)
	require.NoError(t, err)
	assert.Equal(t, []renewer.TaskEvent{renewer.TasksOver, renewer.TaskGranted}, store.asked)
}

func TestStoreWithoutTaskLine(t *testing.T) {
	t.Parallel()
	k, err := renewer.New(memory.New(), renewer.Config{TTL: time.Minute})
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Shutdown(context.Background())) }()
	assert.False(t, k.HasTaskLine())
	_, err = k.Arrive(t.Context(), renewer.Arrival{Name: "a"})
	require.ErrorIs(t, err, renewer.ErrConfig)
	_, err = k.NextTask(t.Context(), "a", renewer.TaskGone, renewer.Task{})
	require.ErrorIs(t, err, renewer.ErrConfig)
	for what, text := range map[renewer.TaskEvent]string{
		renewer.TaskGranted: "granted", renewer.TaskGone: "gone",
		renewer.TaskLeft: "left", renewer.TaskMissing: "missing", renewer.TasksOver: "over",
		renewer.TasksLook: "look",
	} {
		assert.Equal(t, text, what.String())
	}
}
