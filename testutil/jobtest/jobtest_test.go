package jobtest_test

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/jobtest"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) {
	suite.AtOnce(8)
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

func TestToy(t *testing.T) {
	t.Parallel()
	jobtest.Run(t, newFramework)
}

// newFramework returns a toy with no jobs in it.
func newFramework(t *testing.T) jobtest.Framework {
	return framework{t, &Toy[jobtest.Job]{
		Name: rand.Text(), jobs: make(map[string]*toyJob[jobtest.Job]),
	}}
}

type framework struct {
	t *testing.T
	*Toy[jobtest.Job]
}

func (f framework) Serve(
	k *renewer.Keeper, workers int, fn func(context.Context, jobtest.Job) error,
	opts ...jobs.Option,
) (stop func()) {
	work := Handle(f.Toy, k, jobtest.Job.Lock, fn, opts...)
	var all sync.WaitGroup
	over := make(chan struct{})
	for range workers {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(time.Millisecond):
					f.Step(work)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() { close(over); all.Wait() })
	f.t.Cleanup(stop)
	return stop
}

func (f framework) Enqueue(j jobtest.Job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.jobs[j.Name] = &toyJob[jobtest.Job]{number: numbers.Add(1), args: j, due: time.Now()}
}

var numbers atomic.Int64

func (f framework) Cancel(name string) {
	f.Do(name, func(j *toyJob[jobtest.Job]) { j.stop() })
}

func (f framework) Remove(name string) {
	require.Eventually(f.t, func() (waits bool) {
		f.Do(name, func(j *toyJob[jobtest.Job]) {
			if waits = j.stop == nil; waits {
				delete(f.jobs, name)
			}
		})
		return waits
	}, time.Minute, time.Millisecond)
}

func (f framework) Left() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.jobs)
}

func (f framework) Failed() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}
