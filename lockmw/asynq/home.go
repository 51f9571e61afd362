package asynqmw

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockbeat/lockbeat/renewer"
)

// ErrOtherRedis means that the Redis of [InLine] does not have the task that its handler has: it is
// another one, or another database of it, than the server's. Its tasks do not stand in line then.
var ErrOtherRedis = errors.New("lockbeat: the Redis of asynqmw.InLine does not have the task " +
	"that this server runs: give it the server's own asynq.RedisConnOpt")

const (
	// homeKey is where asynq's Redis has the name by which lines of tasks call it: random text,
	// which the first process puts there. Two databases of asynq may have tasks with the same
	// queue and ID, and each process reaches only one of the two.
	homeKey = "asynq:lockbeat"
	// noHome is what is wrong with another text there.
	noHome = "the key " + homeKey + " in asynq's Redis was written by another program: delete it"
)

var homeText = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

// mostAsked bounds for how long a task waits until asynq's Redis has answered. Tests wait longer.
var mostAsked = 500 * time.Millisecond

// taskRedis is asynq's Redis, as [InLine] was given it. It may be used concurrently.
type taskRedis struct {
	client    redis.UniversalClient
	inspector *asynq.Inspector
}

// openTaskRedis returns what opens it when it is first needed, and once: where no task runs, no
// client is left behind. It panics if opt makes no client, as asynq does.
func openTaskRedis(opt asynq.RedisConnOpt) func() *taskRedis {
	return sync.OnceValue(func() *taskRedis {
		client, ok := opt.MakeRedisClient().(redis.UniversalClient)
		if !ok {
			panic(fmt.Sprintf("lockbeat: asynqmw.InLine: a %T makes no redis.UniversalClient", opt))
		}
		return &taskRedis{client: client, inspector: asynq.NewInspectorFromRedisClient(client)}
	})
}

// home returns what lines of tasks call this Redis, if it has the task, which is in its handler and
// so is in the server's Redis for certain. All processes get the same.
func (r *taskRedis) home(ctx context.Context, task renewer.Task) (string, error) {
	_, err := r.inspector.GetTaskInfo(task.Queue, task.ID)
	if errors.Is(err, asynq.ErrTaskNotFound) || errors.Is(err, asynq.ErrQueueNotFound) {
		return "", fmt.Errorf("%w: %w", renewer.ErrConfig, ErrOtherRedis)
	} else if err != nil {
		return "", err
	}
	home, err := r.client.Get(ctx, homeKey).Result()
	if errors.Is(err, redis.Nil) {
		if err := r.client.SetNX(ctx, homeKey, rand.Text(), 0).Err(); err != nil {
			return "", err
		}
		home, err = r.client.Get(ctx, homeKey).Result()
	}
	if err == nil && !homeText.MatchString(home) {
		err = fmt.Errorf("%w: %s", renewer.ErrConfig, noHome)
	}
	return home, err
}

// findHome returns what lines call asynq's Redis. It asks a server until one has answered, for a
// task that is in its handler. The result is "" if the Redis is another one than the server's, or
// has not answered in a while, or refuses: the task is as one without a line then.
func (l *line) findHome(ctx context.Context, task renewer.Task) string {
	if home := l.home.Load(); home != nil {
		return *home
	}
	queues := l.redis()
	found := make(chan string, 1)
	go func() {
		home, err := queues.home(context.WithoutCancel(ctx), task)
		if err != nil {
			l.tell(err)
			home = ""
		} else {
			l.home.Store(&home)
		}
		found <- home
	}()
	timer := time.NewTimer(mostAsked)
	defer timer.Stop()
	select {
	case home := <-found:
		return home
	case <-timer.C:
	case <-ctx.Done():
	}
	return ""
}

// tell tells the keeper's observer of what keeps tasks from being woken, once until one is again;
// err is nil if one was. It is no single lock's.
func (l *line) tell(err error) {
	if l.faulty.Swap(err != nil) || err == nil {
		return
	}
	if o := l.keeper.Config().Observer; o != nil {
		o.Fault(renewer.Fault{Doing: "wake tasks in line", Err: err})
	}
}
