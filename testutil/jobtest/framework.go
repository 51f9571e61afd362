package jobtest

import (
	"context"
	"testing"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
)

// Job is the arguments of a job.
type Job struct {
	// Key is the name of its lock, or of its limit.
	Key string
	// Limit is how many of the limit's jobs may run at once; 0: it is a lock.
	Limit int
	// All is how many jobs that have it may run at once, whatever their keys: 1
	// is a lock, and no limit; 0: as many as their keys let.
	All int
	// Name tells it from all others.
	Name string
	// Last asks for a job with one attempt.
	Last bool
}

// Lock is the key function of all jobs.
func (j Job) Lock() lockmw.Set {
	key := lockmw.All(j.Key)
	if j.Limit != 0 {
		key = lockmw.Limit(j.Key, j.Limit)
	}
	switch j.All {
	case 0:
		return key
	case 1:
		return lockmw.All(key, lockmw.All("all"))
	default:
		return lockmw.All(key, lockmw.Limit("all", j.All))
	}
}

// Framework is a job framework with queues of its own, and the adapter that is
// put to the test. A job that has failed, or has panicked, must not run again
// while the test lasts. Methods may be called concurrently. They end the test
// if they fail.
type Framework interface {
	// Serve starts a server with so many workers, which runs work under each
	// job's [Job.Lock], by the adapter with opts and with jobs.InLine. stop
	// ends it when its jobs have ended; so does the end of the test. Workers
	// ask for jobs as often as the framework allows.
	Serve(
		k *renewer.Keeper, workers int, work func(context.Context, Job) error,
		opts ...jobs.Option,
	) (stop func())

	// Enqueue puts a job into the queue, to be run at once. A later call's job
	// is newer.
	Enqueue(j Job)

	// Cancel ends the context of a job that runs. Where the framework has no
	// such thing, let the server of the test do it.
	Cancel(name string)
	// Remove takes a job out of the queue. If a worker has it still, Remove
	// waits until it is back.
	Remove(name string)

	// Left returns how many jobs run now, or will run.
	Left() int
	// Failed returns how many attempts were used up, or jobs dropped as failed.
	Failed() int
}

// Run runs the suite. open returns a framework whose queues are empty, and are
// others than those of all calls before.
func Run(t *testing.T, open func(t *testing.T) Framework) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, newBench(t, open))
		})
	}
}
