package asynqmw

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	goredis "github.com/redis/go-redis/v9"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// Locks is what handlers need of their server: see [Configure]. It may be used
// concurrently.
type Locks struct {
	keeper *renewer.Keeper
	queue  *taskRedis // nil: by ForTest
	line   bool       // tasks stand in line
	copies bool       // a copy goes back in the place of one on its last attempt
	warned sync.Once  // of a server that is not configured
}

// ServerOption is for [Configure].
type ServerOption func(*Locks)

// NoLine has refused tasks come back by themselves, in a second or two and in
// no order. So a name's lock is idle between short tasks.
func NoLine() ServerOption { return func(l *Locks) { l.line = false } }

// NoCopies makes no copies of tasks on their last attempt. One of a name waits
// in its worker then, for an eighth of its time; asynq archives the others, and
// that one if it waits in vain.
func NoCopies() ServerOption { return func(l *Locks) { l.copies = false } }

// Configure returns what handlers take locks by, and cfg decorated for it, to
// give to asynq.NewServer as it is. redis is what that server is made with. A
// task that was refused its lock is no failure then, comes back soon, and
// raises no alarm; cfg's own IsFailure, RetryDelayFunc and ErrorHandler decide
// all else. On a server without this Config tasks fail, unrun, with
// [renewer.ErrConfig].
//
// Where they are not set, TaskCheckInterval is 10 ms and
// DelayedTaskCheckInterval 1 s, in place of 1 s and 5 s: an idle server asks
// Redis about 90 times a second for each queue.
//
// Call it for each server. A handler may run on several, by the locks of one.
// It panics if k or redis is nil.
func Configure(
	k *renewer.Keeper, redis asynq.RedisConnOpt, cfg asynq.Config, opts ...ServerOption,
) (*Locks, asynq.Config) {
	if k == nil || redis == nil {
		panic("lockbeat: asynqmw.Configure needs a keeper (renewer.New) and the server's Redis, " +
			"such as an asynq.RedisClientOpt")
	}
	l := &Locks{keeper: k, queue: &taskRedis{opt: redis}, line: true, copies: true}
	for _, o := range opts {
		if o != nil {
			o(l)
		}
	}
	return l, decorated(cfg)
}

// ForTest returns locks for handlers that a test calls itself, without a
// server.
func ForTest(k *renewer.Keeper) *Locks { return &Locks{keeper: k} }

// Close closes the connections to asynq's Redis, after the server's Shutdown.
func (l *Locks) Close() error {
	if l.queue == nil {
		return nil
	}
	return l.queue.close()
}

// slotsKey is where a handler's context has the slots of its server: nothing if
// that is not configured, or if no server calls the handler.
type slotsKey struct{}

// decorated is cfg with what it needs for tasks that are refused.
func decorated(cfg asynq.Config) asynq.Config {
	own := cfg
	if cfg.TaskCheckInterval <= 0 {
		cfg.TaskCheckInterval = 10 * time.Millisecond
	}
	if cfg.DelayedTaskCheckInterval == 0 { // asynq takes a negative one as it is
		cfg.DelayedTaskCheckInterval = time.Second
	}
	cfg.IsFailure = func(err error) bool {
		return err != nil && notRun(err) == nil && (own.IsFailure == nil || own.IsFailure(err))
	}
	if own.RetryDelayFunc == nil {
		own.RetryDelayFunc = asynq.DefaultRetryDelayFunc
	}
	cfg.RetryDelayFunc = func(n int, err error, task *asynq.Task) time.Duration {
		if e := notRun(err); e != nil {
			return e.RetryIn
		}
		return own.RetryDelayFunc(n, err, task)
	}
	cfg.ErrorHandler = asynq.ErrorHandlerFunc(
		func(ctx context.Context, task *asynq.Task, err error) {
			e := notRun(err)
			if own.ErrorHandler != nil && (e == nil || e.Outcome == jobs.OutcomeFailed) {
				own.ErrorHandler.HandleError(ctx, task, err)
			}
		})
	if own.BaseContext == nil {
		own.BaseContext = context.Background
	}
	slots := jobs.NewSlots(cfg.Concurrency)
	cfg.BaseContext = func() context.Context {
		return context.WithValue(own.BaseContext(), slotsKey{}, slots)
	}
	return cfg
}

// notRun finds the NotRunError in err, nil if there is none.
func notRun(err error) *NotRunError {
	e, _ := errors.AsType[*NotRunError](err)
	return e
}

// errNotConfigured is for a server on which each refusal would use up an
// attempt.
var errNotConfigured = fmt.Errorf("%w: the task's server was not made with the asynq.Config that "+
	"asynqmw.Configure returned, or its BaseContext was set afterwards: no task runs on it",
	renewer.ErrConfig)

// warn tells the keeper's observer of such a server, once: asynq logs no error
// of a task.
func (l *Locks) warn() {
	l.warned.Do(func() {
		l.keeper.Observer().Fault(renewer.Fault{Doing: "configure asynq", Err: errNotConfigured})
	})
}

// RedisOpt is how asynq reaches a deployment, that of the locks or another: its
// hosts, users, passwords, database and TLS. Time-outs are asynq's own. It asks
// no server, so a cluster has to be said (Deployment.Cluster). The error is
// [renewer.ErrConfig] and names each field with which asynq can do nothing.
func RedisOpt(d redisstore.Deployment) (asynq.RedisConnOpt, error) {
	o, s := d.Option, d.Option.Sentinel
	var faults []string
	for _, f := range []struct {
		is   bool
		text string
	}{
		{len(o.InitAddress) == 0, "InitAddress: is empty; take the Deployment from " +
			"redisstore.FromEnv or FromURL, and check its error"},
		{len(o.InitAddress) > 1 && !d.Cluster && s.MasterSet == "", "InitAddress: has several " +
			"hosts; set Deployment.Cluster or Sentinel.MasterSet"},
		{d.Cluster && s.MasterSet != "", "Sentinel.MasterSet: is set, and Deployment.Cluster is " +
			"true; a cluster has no Sentinels"},
		{d.Cluster && o.SelectDB != 0, "SelectDB: a cluster has no database but 0"},
		{s.MasterSet != "" && s.TLSConfig != o.TLSConfig, "Sentinel.TLSConfig: asynq has one " +
			"TLSConfig for Sentinels and servers; set the same"},
		{!deployment.DialsPlainly(o), "DialFn, DialCtxFn: asynq dials by itself; leave them unset"},
	} {
		if f.is {
			faults = append(faults, f.text)
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("%w: Deployment.Option: %s; or write asynq's options by hand",
			renewer.ErrConfig, strings.Join(faults, "; "))
	}
	opt := plainOpt(d)
	if login := deployment.Login(o); login != nil {
		return askingOpt{opt, login}, nil
	}
	return opt, nil
}

// plainOpt is asynq's own, with the users and the passwords of now.
func plainOpt(d redisstore.Deployment) asynq.RedisConnOpt {
	o, s := d.Option, d.Option.Sentinel
	secured := o.TLSConfig.Clone() // nil of nil
	switch {
	case s.MasterSet != "":
		return asynq.RedisFailoverClientOpt{
			MasterName: s.MasterSet, SentinelAddrs: slices.Clone(o.InitAddress),
			SentinelUsername: s.Username, SentinelPassword: s.Password,
			Username: o.Username, Password: o.Password, DB: o.SelectDB, TLSConfig: secured,
		}
	case d.Cluster:
		return asynq.RedisClusterClientOpt{
			Addrs: slices.Clone(o.InitAddress), Username: o.Username, Password: o.Password,
			TLSConfig: secured,
		}
	default:
		network := "tcp"
		if deployment.IsSocket(o.InitAddress[0]) {
			network = "unix"
		}
		return asynq.RedisClientOpt{
			Network: network, Addr: o.InitAddress[0], Username: o.Username, Password: o.Password,
			DB: o.SelectDB, TLSConfig: secured,
		}
	}
}

// askingOpt asks for the user and the password for each connection: asynq's own
// know one.
type askingOpt struct {
	plain asynq.RedisConnOpt
	login func(context.Context) (user, password string, err error)
}

// MakeRedisClient implements [asynq.RedisConnOpt] as the plain one does.
func (a askingOpt) MakeRedisClient() any {
	switch o := a.plain.(type) {
	case asynq.RedisFailoverClientOpt:
		return goredis.NewFailoverClient(&goredis.FailoverOptions{
			MasterName: o.MasterName, SentinelAddrs: o.SentinelAddrs,
			SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
			CredentialsProviderContext: a.login, DB: o.DB, TLSConfig: o.TLSConfig,
		})
	case asynq.RedisClusterClientOpt:
		return goredis.NewClusterClient(&goredis.ClusterOptions{
			Addrs: o.Addrs, CredentialsProviderContext: a.login, TLSConfig: o.TLSConfig,
		})
	case asynq.RedisClientOpt:
		return goredis.NewClient(&goredis.Options{
			Network: o.Network, Addr: o.Addr, CredentialsProviderContext: a.login, DB: o.DB,
			TLSConfig: o.TLSConfig,
		})
	default:
		return o.MakeRedisClient()
	}
}
