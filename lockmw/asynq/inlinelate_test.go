package asynqmw_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
)

// Tasks that stand in line and are woken, but whose handler is not called any more, left the lock
// idle for a TTL and more, and were woken again and again.
func TestTasksInLineThatDoNotReachTheirHandler(t *testing.T) {
	t.Parallel()
	errBarred := errors.New("not now")
	for name, bar := range map[string]bool{
		"their deadline has passed": false, // by which they are not even woken
		"something refuses them":    true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onRedis(t, func(t *testing.T, queues, locks *env) {
				const lost, others = 6, 3
				release := hold(t, locks.keeper(), "u1")
				var barred sync.Map
				f := &fleet{env: queues, locks: locks, record: newRecord()}
				h := asynqmw.Handle(locks.keeper(), byUser, func(ctx context.Context, o order) error {
					defer f.record.begin(ctx, o.User)()
					return nil
				}, asynqmw.InLine(queues.redis()))
				f.serve(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
					if _, yes := barred.Load(task.ResultWriter().TaskID()); yes {
						return errBarred
					}
					return h.ProcessTask(ctx, task)
				}), asUsers(8))
				first := f.enqueue("u1")
				locks.awaitSlot("u1")
				most := 1 // times that each is woken
				var limit []asynq.Option
				deadline := time.Now().Add(6 * time.Second)
				if !bar {
					most, limit = 0, append(limit, asynq.Deadline(deadline))
				}
				var ids []string
				want := []string{first}
				for range lost {
					id := f.enqueue("u1", limit...)
					f.awaitParked(id)
					ids = append(ids, id)
				}
				for range others {
					id := f.enqueue("u1")
					f.awaitParked(id)
					want = append(want, id)
				}
				if bar {
					for _, id := range ids {
						barred.Store(id, true)
					}
				} else {
					<-time.After(time.Until(deadline))
				}
				release()
				f.awaitRuns(len(want), 10*time.Second)
				assert.ElementsMatch(t, want, f.record.runs)
				for _, id := range ids {
					info, err := f.inspector.GetTaskInfo("default", id)
					require.NoError(t, err)
					assert.LessOrEqual(t, info.Retried, most, "it comes back when asynq says")
				}
			})
		})
	}
}

// A task that was chosen to be woken, but has not been yet since its worker took long to put it
// back, keeps its place.
func TestTasksInLineThatAreYetToBeWoken(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		release := hold(t, locks.keeper(), "u1")
		f := newFleet(queues, locks, 1, 4, time.Millisecond, asynqmw.InLine(queues.redis()))
		waits := f.enqueue("u1")
		locks.awaitSlot("u1")
		var ids []string
		for range 2 {
			ids = append(ids, f.enqueue("u1"))
			f.awaitParked(ids[len(ids)-1])
		}
		const key = "lockbeat:{order:u1}"
		client, err := rueidis.NewClient(locks.option)
		require.NoError(t, err)
		defer client.Close()
		do := func(command ...string) rueidis.RedisResult {
			return client.Do(t.Context(), client.B().Arbitrary(command...).Build())
		}
		chosen := strconv.FormatInt(time.Now().UnixMicro(), 10)
		require.NoError(t, do("HSET", key+wokenSuffix, "default\n"+ids[0], chosen).Error())
		require.NoError(t, do("DEL", key+slotSuffix).Error()) // else nobody is looked for
		asked := f.enqueue("u1")                              // whose process looks at the line then
		f.awaitParked(asked)
		<-time.After(500 * time.Millisecond)
		place, err := do("ZRANK", key+tasksSuffix, "default\n"+ids[0]).AsInt64()
		require.NoError(t, err)
		assert.LessOrEqual(t, place, int64(1), "behind the one that has waited in its slot")
		require.NoError(t, do("HDEL", key+wokenSuffix, "default\n"+ids[0]).Error())
		release()
		f.awaitRuns(4, soon)
		assert.Contains(t, f.record.runs, waits)
	})
}
