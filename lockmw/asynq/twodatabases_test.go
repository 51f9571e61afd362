package asynqmw_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Two asynq databases share a lock, and have tasks of the same queue and IDs. Each took the other's
// tasks out of the line, since it does not have them: the lock was idle for a TTL.
func TestTasksOfTwoDatabasesThatShareALock(t *testing.T) {
	t.Parallel()
	for name, sameServer := range map[string]bool{"of one Redis": true, "of two": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const tasks, takes = 20, 20 * time.Millisecond
			locks := newEnv(t, redistest.Start(t).ClientOption())
			second := locks.option
			if !sameServer {
				second = redistest.Start(t).ClientOption()
			}
			databases := []*env{newDatabase(t, locks.option, 1), newDatabase(t, second, 2)}
			var g gauge
			for _, e := range databases {
				for i := range tasks {
					e.enqueue("u1", asynq.TaskID(fmt.Sprint(i)))
				}
			}
			begun := time.Now()
			for _, e := range databases {
				e.serve(asynqmw.Handle(locks.keeper(), byUser,
					func(ctx context.Context, _ order) error {
						g.enter()
						defer g.leave()
						work(ctx, takes)
						return nil
					}, asynqmw.InLine(e.redis()), asynqmw.Requeue(e.client)), asUsers(10))
			}
			for _, e := range databases {
				for i := range tasks {
					assert.Zero(t, e.awaitState(fmt.Sprint(i), asynq.TaskStateCompleted).Retried)
				}
			}
			assert.Less(t, time.Since(begun), goesOn) // by itself none comes before the TTL is over
			assert.EqualValues(t, 2*tasks, g.runs.Load())
			assert.Zero(t, g.overlaps.Load())
			t.Logf("%v for %v of work", time.Since(begun), 2*tasks*takes)
		})
	}
}

// Processes that meet on a new database at once stand in one line, by the name that the first of
// them has put there.
func TestServersOfADatabaseShareALine(t *testing.T) {
	t.Parallel()
	const servers = 4
	locks := newEnv(t, redistest.Start(t).ClientOption())
	e := newDatabase(t, locks.option, 1)
	release := hold(t, locks.keeper(), "u1")
	for range servers {
		e.serve(asynqmw.Handle(locks.keeper(), byUser,
			func(context.Context, order) error { return nil },
			asynqmw.InLine(e.redis()), asynqmw.Wait(0)), asUsers(1))
	}
	const tasks = 4 * servers
	var ids []string
	for range tasks {
		ids = append(ids, e.enqueue("u1"))
	}
	for _, id := range ids {
		e.awaitParked(id)
	}
	client, err := rueidis.NewClient(locks.option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	lines, err := client.Do(t.Context(),
		client.B().Keys().Pattern(leaseOf("u1")+":tasks*").Build()).AsStrSlice()
	require.NoError(t, err)
	require.Len(t, lines, 1)
	n, err := client.Do(t.Context(), client.B().Zcard().Key(lines[0]).Build()).AsInt64()
	require.NoError(t, err)
	assert.EqualValues(t, tasks, n)
	release()
	for _, id := range ids {
		e.awaitState(id, asynq.TaskStateCompleted)
	}
}

// What is to say which Redis it is was not written by this library: the operator is told, and tasks
// are as without InLine.
func TestARedisWhoseNameIsAnothers(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"a text":       {"SET", asynqmw.HomeKey, "}:tasks"},
		"another type": {"LPUSH", asynqmw.HomeKey, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newDatabase(t, redistest.Start(t).ClientOption(), 0)
			e.write(command...)
			var heard faults
			k := e.keeper(func(cfg *renewer.Config) { cfg.Observer = &heard })
			release := hold(t, e.keeper(), "u1")
			e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil },
				asynqmw.InLine(e.redis()), asynqmw.Wait(10*time.Millisecond)))
			id := e.enqueue("u1")
			assert.NotContains(t, e.awaitRefused(id).LastErr, "it stands in line")
			release()
			assert.Zero(t, e.awaitState(id, asynq.TaskStateCompleted).Retried)
			told := heard.told()
			require.Len(t, told, 1)
			assert.Equal(t, "wake tasks in line", told[0].Doing)
		})
	}
}
