package asynqmw

import (
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/lockmw/internal/line"
	"github.com/lockbeat/lockbeat/lockmw/internal/maxhold"
	"github.com/lockbeat/lockbeat/renewer"
)

// HandleOption is what [Handle] takes: every [Option], and [Codec].
type HandleOption interface{ handle(*settings) }

// Option says what to do for [Handle] and [Middleware]. Of two that contradict
// each other the later one counts. Options panic if they are given what can't
// be meant, such as a negative duration: they are called when a program starts.
type Option interface {
	HandleOption
	lock(*settings)
}

type option func(*settings)

func (o option) handle(s *settings) { o(s) }
func (o option) lock(s *settings)   { o(s) }

type handleOption func(*settings)

func (o handleOption) handle(s *settings) { o(s) }

type settings struct {
	wait    time.Duration // 0: refuse
	skip    bool
	strict  bool
	maxHold maxhold.Setting
	shared  bool
	retryIn time.Duration // 0: the defaults
	client  *asynq.Client
	extra   []asynq.Option
	codec   func([]byte, any) error
	queues  *taskRedis // nil: tasks don't stand in line
	warned  sync.Once  // that the server is not configured
}

func newSettings() settings {
	return settings{wait: DefaultWait, codec: decodeJSON}
}

// checkMaxHold panics if no lock of k can be had with MaxHold.
func (s *settings) checkMaxHold(k *renewer.Keeper) {
	if err := s.maxHold.Check(k); err != nil {
		panic(err.Error())
	}
}

// newLine returns that of a handler, nil if its tasks don't stand in line.
func (s *settings) newLine(k *renewer.Keeper) *line.Line {
	if s.queues == nil || s.skip {
		return nil
	}
	return line.New(k, s.queues)
}

// DefaultWait is for how long a task waits in its worker's slot unless [Wait] says otherwise, if
// that is not more than an eighth of its time.
const DefaultWait = time.Second

// Wait waits for the lock for at most d before the task goes back to its queue, and never for
// more than an eighth of the task's time: the work always has seven eighths. It holds a worker's
// slot meanwhile. So a task does not wait at all where half of the workers wait already, or an
// eighth for its key. By 0 no task waits but on its last attempt.
//
// Default [DefaultWait] (1 s). It panics if d is negative.
func Wait(d time.Duration) Option {
	if d < 0 {
		panic(fmt.Sprintf("lockbeat: asynqmw.Wait(%v) can't be meant: give how long to wait in "+
			"line, 0 for not at all", d))
	}
	return option(func(s *settings) { s.wait, s.skip = d, false })
}

// Skip leaves the work to the holder of the lock: the task is done, without having run.
func Skip() Option { return option(func(s *settings) { s.wait, s.skip = 0, true }) }

// Strict makes a lost lock an error, [renewer.ErrLost], even though
// the handler returned none: asynq runs the task again.
func Strict() Option { return option(func(s *settings) { s.strict = true }) }

// MaxHold bounds how long a task keeps its lock, in place of renewer.Config.MaxHold: longer for
// tasks that run for an hour, say, or shorter. Zero or less: no bound. If d is less than one
// renewer.Config.Heartbeat, [Handle], [HandleGroup] and [Middleware] panic. See [lockmw.MaxHold].
// Default: the keeper's bound.
func MaxHold(d time.Duration) Option {
	return option(func(s *settings) { s.maxHold = maxhold.Of(d) })
}

// SharedKey leaves the task type out of the lock's name, so that
// types share locks with each other, and with lockmw.Do.
func SharedKey() Option { return option(func(s *settings) { s.shared = true }) }

// RetryIn sets about how long after it was refused, or could not ask the lock's
// store, a task comes back: a random duration between half of d and one and a half.
// asynq rounds down to whole seconds, and looks every Config.DelayedTaskCheckInterval,
// a second by [Configure]. Default lockmw.RetryIn: a second, five if the store was down, and
// longer for a lock that has been held for long. It panics if d is not positive.
func RetryIn(d time.Duration) Option {
	if d <= 0 {
		panic(fmt.Sprintf("lockbeat: asynqmw.RetryIn(%v) can't be meant: give a positive "+
			"duration, such as a second", d))
	}
	return option(func(s *settings) { s.retryIn = d })
}

// Codec decodes payloads by unmarshal in place of json.Unmarshal. It gets the payload, even if that
// is empty, and a pointer to a T to decode into; if T is a pointer itself, such as a *pb.Email, it
// gets a T. It may be called concurrently. It panics if unmarshal is nil.
func Codec(unmarshal func(data []byte, v any) error) HandleOption {
	if unmarshal == nil {
		panic("lockbeat: asynqmw.Codec needs a function such as json.Unmarshal")
	}
	return handleOption(func(s *settings) { s.codec = unmarshal })
}

// Requeue brings a task back on its last attempt, too. asynq archives a task that does not run
// on its last attempt, and asks no function of ours. So one such task of a key waits in its slot
// for an eighth of its time, and others are archived, unless there is a client to enqueue a
// copy by before the original is dropped. The client must be for the Redis of the server; its
// Close is the caller's, after the server's Shutdown.
//
// The copy has the type, payload, headers, queue, Timeout, Deadline and Retention of the original,
// and no attempt fewer. It does not have its ID, nor the Unique lock. The header [OriginHeader] has
// the original's ID. Only the inspector of [InLine] knows all three times. Without it the copy has
// the earlier one of Timeout and Deadline, and the Retention of opts: [asynq.Retention].
//
// It panics if client is nil, or with other options than that.
func Requeue(client *asynq.Client, opts ...asynq.Option) Option {
	if client == nil {
		panic("lockbeat: asynqmw.Requeue needs the client to enqueue by: asynq.NewClient")
	}
	for _, o := range opts {
		switch o.Type() {
		case asynq.RetentionOpt:
		case asynq.UniqueOpt:
			panic("lockbeat: asynqmw.Requeue can't take asynq.Unique: the original, still there, " +
				"would refuse its copy")
		default:
			panic(fmt.Sprintf("lockbeat: asynqmw.Requeue can't take %v: the copy is as the "+
				"original there", o))
		}
	}
	return option(func(s *settings) { s.client, s.extra = client, opts })
}

// InLine has tasks stand in line for their lock, in the order in which they were first refused,
// without keeping a worker: see docs/asynq.md. A task that is refused goes back to its queue, with
// no attempt used up, and is called from there when its turn is near. One task of a key, on all
// servers, waits in its worker's slot, as [Wait] says; then it goes back to the first place, and is
// called at the release.
//
// redis is what the server was made with. If it is another Redis, or another database of it, the
// keeper's observer is told with the first task, and tasks do not stand in line. With the first
// task it makes a client, which stays for the rest of the process: give one InLine to all handlers.
// A task whose call is lost comes back by itself, after the keeper's TTL, and a tenth of a second
// more for each task before it, 10 minutes at most: [RetryIn] does not change that. Tasks on their
// last attempt can't go back: see [Requeue].
//
// Without effect if the keeper's store keeps no lines of tasks: package redisstore's does, on one
// deployment. It panics if redis is nil.
func InLine(redis asynq.RedisConnOpt) Option {
	if redis == nil {
		panic("lockbeat: asynqmw.InLine needs the server's Redis, such as an asynq.RedisClientOpt")
	}
	queues := newTaskRedis(redis)
	return option(func(s *settings) { s.queues = queues })
}
