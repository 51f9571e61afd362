// Package kit is what the suites of faults share: processes of the library on a server, the
// heartbeats that a test waits for, and what a server itself knows of a lock.
package kit

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// Patience is how long a test waits for an event that comes soon, on a busy machine too.
const Patience = 20 * time.Second

// Process is what one process has: a client, a store and a keeper.
type Process struct {
	Client rueidis.Client
	Store  *redisstore.Store
	Keeper *renewer.Keeper
	Beats  *Beats
}

// Start makes a process on what option leads to. When the test ends, servers are let go on, and the
// keeper must shut down in order.
func Start(
	t testing.TB, option rueidis.ClientOption, cfg renewer.Config, servers ...*redistest.Server,
) *Process {
	t.Helper()
	option, err := redisstore.ClientOption(option, cfg.TTL)
	require.NoError(t, err)
	p := &Process{Beats: newBeats()}
	// A busy machine may need more than one attempt of the time that suits a short TTL.
	require.Eventually(t, func() bool {
		p.Client, err = rueidis.NewClient(option)
		return err == nil
	}, Patience, 5*time.Millisecond, "%v", &err)
	p.Store, err = redisstore.New(p.Client, redisstore.WriteTimeout(option.ConnWriteTimeout),
		redisstore.Log(renewer.Silent))
	require.NoError(t, err)
	cfg.Observer, cfg.Log = p.Beats, renewer.Silent
	p.Keeper, err = renewer.New(p.Store, cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, s := range servers {
			_ = s.Cont() // fails only if it has been killed
		}
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := p.Keeper.Shutdown(ctx); !t.Failed() {
			assert.NoError(t, err)
		}
		p.Store.Close()
		p.Client.Close()
	})
	return p
}

// Acquire takes a lock.
func (p *Process) Acquire(t testing.TB, name string) *renewer.Lease {
	t.Helper()
	return p.AcquireAs(t, renewer.Request{Name: name})
}

// AcquireAs takes what is requested.
func (p *Process) AcquireAs(t testing.TB, r renewer.Request) *renewer.Lease {
	t.Helper()
	r.MaxWait = Patience
	lease, err := p.Keeper.Acquire(context.Background(), r)
	require.NoError(t, err)
	return lease
}

// Got is the end of an Acquire in the background.
type Got struct {
	Lease *renewer.Lease
	At    time.Time
	Err   error
}

// Seek acquires in the background.
func (p *Process) Seek(name string) <-chan Got {
	c := make(chan Got, 1)
	go func() {
		lease, err := p.Keeper.Acquire(context.Background(), renewer.Request{
			Name: name, MaxWait: 3 * Patience,
		})
		c <- Got{lease, time.Now(), err}
	}()
	return c
}

// Lost waits for a lease's context to end, and returns how the lease was lost.
func Lost(t testing.TB, lease *renewer.Lease) *renewer.LostError {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(Patience):
		require.FailNow(t, "the context has not ended", lease.Name())
	}
	var lost *renewer.LostError
	require.ErrorAs(t, context.Cause(lease.Context()), &lost)
	require.ErrorIs(t, lost, renewer.ErrLost)
	require.False(t, lease.Valid())
	require.ErrorIs(t, lease.Err(), renewer.ErrLost)
	return lost
}

// Beats notes a keeper's heartbeats.
type Beats struct {
	renewer.NopObserver
	all chan renewer.Renewed
}

func newBeats() *Beats { return &Beats{all: make(chan renewer.Renewed, 1024)} }

// Renewed drops what no test waits for.
func (b *Beats) Renewed(_ context.Context, r renewer.Renewed) {
	select {
	case b.all <- r:
	default:
	}
}

// Failed waits for n heartbeats from now on that bring no answer.
func (b *Beats) Failed(t testing.TB, n int) {
	t.Helper()
	b.Await(t, n, func(r renewer.Renewed) bool { return r.Failed > 0 })
}

// Confirmed waits for n heartbeats from now on that renew every lease.
func (b *Beats) Confirmed(t testing.TB, n int) {
	t.Helper()
	b.Await(t, n, func(r renewer.Renewed) bool { return r.OK == r.Leases })
}

// Await waits for n heartbeats from now on that are as wanted.
func (b *Beats) Await(t testing.TB, n int, wanted func(renewer.Renewed) bool) {
	t.Helper()
	for len(b.all) > 0 {
		<-b.all
	}
	timeout := time.After(Patience)
	for n > 0 {
		select {
		case r := <-b.all:
			if wanted(r) {
				n--
			}
		case <-timeout:
			require.FailNow(t, "the heartbeats that were waited for did not come")
		}
	}
}
