package asynqmw_test

import (
	"context"
	"strings"
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

// Another database of the server's Redis, or another Redis: the operator is told, once, and tasks
// are as without InLine. They used to lose their places without a word.
func TestAnotherRedisThanTheServersIsToldOf(t *testing.T) {
	t.Parallel()
	for name, queue := range map[string]bool{"without the queue": false, "with one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, redistest.Start(t).ClientOption())
			other := e.redis()
			other.DB = 1
			if queue {
				client := asynq.NewClient(other)
				_, err := client.Enqueue(asynq.NewTask("other", nil))
				require.NoError(t, err)
				require.NoError(t, client.Close())
			}
			var heard faults
			k := e.keeper(func(cfg *renewer.Config) { cfg.Observer = &heard })
			release := hold(t, e.keeper(), "u1")
			e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil },
				asynqmw.InLine(other), asynqmw.Wait(10*time.Millisecond)))
			ids := []string{e.enqueue("u1"), e.enqueue("u1"), e.enqueue("u1")}
			for _, id := range ids {
				assert.NotContains(t, e.awaitRefused(id).LastErr, "it stands in line")
			}
			assert.Empty(t, e.keysOf("u1"), "none has a place")
			release()
			for _, id := range ids {
				assert.Zero(t, e.awaitState(id, asynq.TaskStateCompleted).Retried)
			}
			told := heard.told()
			require.Len(t, told, 1)
			assert.Equal(t, "wake tasks in line", told[0].Doing)
			assert.Empty(t, told[0].Name, "all tasks are concerned")
			require.ErrorIs(t, told[0].Err, asynqmw.ErrOtherRedis)
		})
	}
}

// The rights to wake tasks, or to keep their places, are taken away
// while tasks stand in line: they come back by themselves, within the
// TTL and a tenth of a second for each, and the operator is told.
func TestRightsAreTakenAwayWhileTasksStandInLine(t *testing.T) {
	t.Parallel()
	for who, rights := range map[string]string{
		"queues": "-@all",
		"locks":  "-zadd -zrem -zrange -zrank -zcard -zscore -hset -hdel -hgetall -exists",
	} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, redistest.Start(t).ClientOption())
			admin, err := rueidis.NewClient(e.option)
			require.NoError(t, err)
			t.Cleanup(admin.Close)
			acl := func(rules string) {
				args := append([]string{"SETUSER", who}, strings.Fields(rules)...)
				require.NoError(t, admin.Do(context.Background(),
					admin.B().Arbitrary("ACL").Args(args...).Build()).Error())
			}
			acl("on >secret ~* &* +@all")
			redis, locks := e.redis(), *e
			if who == "locks" {
				locks.option.Username, locks.option.Password = who, "secret"
			} else {
				redis.Username, redis.Password = who, "secret"
			}
			const ttl = 2 * time.Second
			var heard faults
			k := locks.keeper(func(cfg *renewer.Config) { cfg.Observer, cfg.TTL = &heard, ttl })
			release := hold(t, e.keeper(), "u1")
			e.serve(asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil },
				asynqmw.InLine(redis), asynqmw.Requeue(e.client)))
			var ids []string
			for range 4 {
				ids = append(ids, e.enqueue("u1"))
			}
			parked := func() (n int) {
				tasks, err := e.inspector.ListRetryTasks("default")
				require.NoError(t, err)
				return len(tasks)
			}
			require.Eventually(t, func() bool { return parked() >= 2 }, soon, tick)
			acl(rights)
			release()
			begun := time.Now()
			for _, id := range ids {
				assert.Zero(t, e.awaitState(id, asynq.TaskStateCompleted).Retried)
			}
			assert.Less(t, time.Since(begun), ttl+soon/4, "they come by themselves")
			told := heard.told()
			require.NotEmpty(t, told)
			assert.Equal(t, "wake tasks in line", told[0].Doing)
			assert.Empty(t, told[0].Name, "all tasks are concerned")
			assert.Regexp(t, "NOPERM|can't run this command", told[0].Err)
		})
	}
}
