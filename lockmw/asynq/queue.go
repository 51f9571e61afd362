package asynqmw

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
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
var errOtherRedis = fmt.Errorf("%w: the Redis of asynqmw.Configure does not have the task that "+
	"this server runs: give both the same asynq.RedisConnOpt", renewer.ErrConfig)

// homeKey is where asynq's Redis has the name by which lines of tasks call it:
// random text, which the first process puts there. Two databases of asynq may
// have tasks with the same queue and ID, and each process reaches only one of
// the two.
const homeKey = "asynq:lockbeat"

// homeText is what may be there.
var homeText = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

// taskRedis is asynq's Redis. It is opened when it is first needed: where no
// task runs, no goroutine of a client is left behind. It may be used
// concurrently.
type taskRedis struct {
	opt asynq.RedisConnOpt

	mu     sync.Mutex
	opened *opened // nil: not yet
}

type opened struct {
	redis.UniversalClient

	inspector *asynq.Inspector
	tasks     *asynq.Client
}

var _ jobs.Queue = (*taskRedis)(nil)

// open panics if the option makes no client, as asynq does.
func (r *taskRedis) open() *opened {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opened == nil {
		client, ok := r.opt.MakeRedisClient().(redis.UniversalClient)
		if !ok {
			panic(fmt.Sprintf("lockbeat: asynqmw: a %T makes no redis.UniversalClient", r.opt))
		}
		r.opened = &opened{
			client, asynq.NewInspectorFromRedisClient(client),
			asynq.NewClientFromRedisClient(client),
		}
	}
	return r.opened
}

func (r *taskRedis) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opened == nil {
		return nil
	}
	return r.opened.Close()
}

// find returns what asynq knows of a task: nil without an error if there is
// none.
func (r *taskRedis) find(task jobs.Task) (*asynq.TaskInfo, error) {
	info, err := r.open().inspector.GetTaskInfo(task.Queue, task.ID)
	if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return nil, nil //nolint:nilnil // neither
	}
	return info, err
}

// Home implements [jobs.Queue]: a task that is in its handler is in the
// server's Redis for certain.
func (r *taskRedis) Home(ctx context.Context, task jobs.Task) (string, error) {
	if _, err := r.running(ctx, task); err != nil {
		return "", err
	}
	if err := r.open().SetNX(ctx, homeKey, rand.Text(), 0).Err(); err != nil {
		return "", err
	}
	home, err := r.open().Get(ctx, homeKey).Result()
	if err == nil && !homeText.MatchString(home) {
		err = fmt.Errorf("%w: the key "+homeKey+" in asynq's Redis was written by another "+
			"program: delete it", renewer.ErrConfig)
	}
	return home, err
}

// State implements [jobs.Queue]. RunTask would run a task that has run, or has
// failed, or was archived by hand, all the same; so it would if asynq did not
// call its handler any more, since its deadline has passed. A copy has no error
// of its own yet; it comes soon.
func (r *taskRedis) State(mark string, task jobs.Task) (jobs.State, error) {
	info, err := r.find(task)
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

// Run implements [jobs.Queue]. RunTask puts a task behind all that came to the
// queue after it, and its lock would be idle until a backlog of them had been
// refused.
func (r *taskRedis) Run(task jobs.Task) error {
	err := r.open().inspector.RunTask(task.Queue, task.ID)
	if err == nil {
		_ = r.overtake(task) // else it runs all the same, but later
	}
	return err
}

// overtake has a pending task run next. It does nothing to one that a server
// has taken meanwhile: twice in the list it would run twice.
func (r *taskRedis) overtake(task jobs.Task) error {
	key := "asynq:{" + task.Queue + "}:pending" // asynq's base.PendingKey
	return overtake.Run(context.Background(), r.open(), []string{key}, task.ID).Err()
}

// asynq takes tasks from the list's end. The task is among the last that were
// put at its beginning: no more are looked at, since the list may be long.
var overtake = redis.NewScript(`
if redis.call('LPOS', KEYS[1], ARGV[1], 'MAXLEN', 64) then
	redis.call('LREM', KEYS[1], 1, ARGV[1])
	redis.call('RPUSH', KEYS[1], ARGV[1])
end
return 1
`)

// originHeader is the header of a copy, and of copies of it: the ID of the task
// as it was first enqueued.
const originHeader = "Lockbeat-Origin"

// copier returns what enqueues a copy of a task on its last attempt, of which
// asynq takes one by an ID at most. It makes none of a task that its Redis does
// not have: the copy would be in another Redis than the server's.
func (r *taskRedis) copier(
	of jobs.Task,
) func(ctx context.Context, id string, in time.Duration) error {
	return func(ctx context.Context, copyID string, in time.Duration) error {
		info, err := r.running(ctx, of)
		if err == nil {
			headers := map[string]string{originHeader: of.ID}
			maps.Copy(headers, info.Headers) // the original may be a copy
			_, err = r.open().tasks.EnqueueContext(ctx,
				asynq.NewTaskWithHeaders(info.Type, info.Payload, headers),
				asynq.Queue(of.Queue), asynq.MaxRetry(info.MaxRetry-info.Retried),
				asynq.TaskID(copyID), asynq.ProcessIn(in), asynq.Timeout(info.Timeout),
				asynq.Deadline(info.Deadline), asynq.Retention(info.Retention))
		}
		if err == nil || errors.Is(err, asynq.ErrTaskIDConflict) { // an earlier try got through
			return nil
		}
		return fmt.Errorf("nor could a copy of the task be enqueued: %w", err)
	}
}

// running is a task that a worker of the server has, as asynq has it. The error
// is errOtherRedis if there is none. (An inspector takes no context.)
func (r *taskRedis) running(ctx context.Context, task jobs.Task) (*asynq.TaskInfo, error) {
	type answer struct {
		info *asynq.TaskInfo
		err  error
	}
	found := make(chan answer, 1)
	go func() {
		info, err := r.find(task)
		if err == nil && info == nil {
			err = errOtherRedis
		}
		found <- answer{info, err}
	}()
	select {
	case a := <-found:
		return a.info, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
