package asynqmw

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// errOtherRedis is for a Redis, or a database of it, that is not the server's.
var errOtherRedis = fmt.Errorf("%w: the Redis of asynqmw.InLine does not have the task that this "+
	"server runs: give it the server's own asynq.RedisConnOpt", renewer.ErrConfig)

// homeKey is where asynq's Redis has the name by which lines of tasks call it: random text, which
// the first process puts there. Two databases of asynq may have tasks with the same queue and ID,
// and each process reaches only one of the two.
const homeKey = "asynq:lockbeat"

// homeText is what may be there.
var homeText = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

// taskRedis is asynq's Redis, as [InLine] was given it. It is opened when it is first needed, and
// once: where no task runs, no client is left behind. It may be used concurrently.
type taskRedis struct {
	open func() (redis.UniversalClient, *asynq.Inspector)
}

var _ jobs.Queue = (*taskRedis)(nil)

// newTaskRedis returns that of opt. Opening it panics if opt makes no client, as asynq does.
func newTaskRedis(opt asynq.RedisConnOpt) *taskRedis {
	return &taskRedis{sync.OnceValues(func() (redis.UniversalClient, *asynq.Inspector) {
		client, ok := opt.MakeRedisClient().(redis.UniversalClient)
		if !ok {
			panic(fmt.Sprintf("lockbeat: asynqmw.InLine: a %T makes no redis.UniversalClient", opt))
		}
		return client, asynq.NewInspectorFromRedisClient(client)
	})}
}

// find returns what asynq knows of a task: nil without an error if there is none.
func (r *taskRedis) find(queue, id string) (*asynq.TaskInfo, error) {
	_, inspector := r.open()
	info, err := inspector.GetTaskInfo(queue, id)
	if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return nil, nil //nolint:nilnil // neither
	}
	return info, err
}

// Home implements [jobs.Queue]: a task that is in its handler is in the server's Redis for certain.
func (r *taskRedis) Home(ctx context.Context, running jobs.Task) (string, error) {
	switch info, err := r.find(running.Queue, running.ID); {
	case err != nil:
		return "", err
	case info == nil:
		return "", errOtherRedis
	}
	client, _ := r.open()
	if err := client.SetNX(ctx, homeKey, rand.Text(), 0).Err(); err != nil {
		return "", err
	}
	home, err := client.Get(ctx, homeKey).Result()
	if err == nil && !homeText.MatchString(home) {
		err = fmt.Errorf("%w: the key "+homeKey+" in asynq's Redis was written by another "+
			"program: delete it", renewer.ErrConfig)
	}
	return home, err
}

// State implements [jobs.Queue]. RunTask would run a task that has run, or has failed, or was
// archived by hand, all the same; so it would if asynq did not call its handler any more, since its
// deadline has passed. A copy has no error of its own yet; it comes soon.
func (r *taskRedis) State(mark string, task jobs.Task) (jobs.State, error) {
	info, err := r.find(task.Queue, task.ID)
	switch {
	case err != nil || info == nil:
		return jobs.StateGone, err
	case info.State == asynq.TaskStatePending:
		return jobs.StateComing, nil
	case info.State == asynq.TaskStateActive:
		return jobs.StateRunning, nil
	case !info.Deadline.IsZero() && time.Now().After(info.Deadline):
		return jobs.StateGone, nil
	case info.State == asynq.TaskStateRetry && strings.Contains(info.LastErr, mark),
		info.State == asynq.TaskStateScheduled && info.Headers[originHeader] != "" &&
			time.Until(info.NextProcessAt) < contract.MostTaskDelay+time.Minute: // for the clocks
		return jobs.StateWaiting, nil
	default:
		return jobs.StateGone, nil
	}
}

// Run implements [jobs.Queue]. RunTask puts a task behind all that came to the queue after it, and
// its lock would be idle until a backlog of them had been refused.
func (r *taskRedis) Run(task jobs.Task) error {
	_, inspector := r.open()
	err := inspector.RunTask(task.Queue, task.ID)
	if err == nil {
		_ = r.overtake(task) // else it runs all the same, but later
	}
	return err
}

// overtake has a pending task run next. It does nothing to one that a server has taken meanwhile:
// twice in the list it would run twice.
func (r *taskRedis) overtake(task jobs.Task) error {
	client, _ := r.open()
	key := "asynq:{" + task.Queue + "}:pending" // asynq's base.PendingKey
	return overtake.Run(context.Background(), client, []string{key}, task.ID).Err()
}

// asynq takes tasks from the list's end. The task is among the last that were put at its beginning:
// no more are looked at, since the list may be long.
var overtake = redis.NewScript(`
if redis.call('LPOS', KEYS[1], ARGV[1], 'MAXLEN', 64) then
	redis.call('LREM', KEYS[1], 1, ARGV[1])
	redis.call('RPUSH', KEYS[1], ARGV[1])
end
return 1
`)
