package lockmw_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// politics hears of leaders, as an observer does of any lock, by their Operation.
type politics struct {
	renewer.NopObserver

	node string
	told func(string)
}

func (p politics) AcquireEnd(ctx context.Context, e renewer.AcquireEnd) context.Context {
	if e.Operation == "leader" && e.Err == nil {
		p.told(p.node + " elected")
	}
	return ctx
}

func (p politics) Lost(_ context.Context, e renewer.Lost) {
	p.told(p.node + " lost: " + e.Err.Reason.String())
}

func (p politics) Released(_ context.Context, e renewer.Released) {
	if e.Operation == "leader" && e.Lost == nil {
		p.told(p.node + " resigned")
	}
}

// On a real Redis: a leader resigns, and a successor is told, again and again; one
// whose lock is taken away hears of it, and so do observers.
func TestSuccession(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var mu sync.Mutex
	var news []string
	told := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		news = append(news, what)
	}
	const ttl = 30 * time.Second // a client must connect in a fraction of it
	keeper := func(node string) *renewer.Keeper {
		option, err := redisstore.ClientOption(server.ClientOption(), ttl)
		require.NoError(t, err)
		client, err := rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		store, err := redisstore.New(client, redisstore.WriteTimeout(option.ConnWriteTimeout))
		require.NoError(t, err)
		t.Cleanup(store.Close)
		k, err := renewer.New(store,
			renewer.Config{
				TTL: ttl, Heartbeat: time.Second, Poll: time.Minute, Node: node,
				Observer: politics{node: node, told: told},
			})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
		return k
	}

	leads := make(chan int, 10)
	var over sync.WaitGroup
	const terms = 9
	resign := make([]context.CancelFunc, terms)
	stand := func(n int) {
		ctx, cancel := context.WithCancel(t.Context())
		resign[n] = cancel
		k := keeper(fmt.Sprint("node-", n))
		over.Go(func() {
			err := lockmw.RunWhileHeld(ctx, k, "reports", func(ctx context.Context) error {
				leads <- n
				<-ctx.Done()
				return context.Cause(ctx)
			}, lockmw.Operation("leader"))
			assert.ErrorIs(t, err, context.Canceled)
		})
	}
	for n := range terms {
		stand(n)
	}
	var gaps []time.Duration
	leader := <-leads
	for range terms - 1 {
		begun := time.Now()
		resign[leader]()
		leader = <-leads
		gaps = append(gaps, time.Since(begun))
	}
	slices.Sort(gaps)
	t.Log("a successor leads after", gaps)
	assert.Less(t, gaps[len(gaps)/2], time.Second, "long before it would look by itself")

	require.NoError(t, server.Do("DEL", "lockbeat:{reports}").Error())
	assert.Equal(t, leader, <-leads, "it stands by again, alone")
	resign[leader]()
	over.Wait()
	mu.Lock()
	defer mu.Unlock()
	want := []string{
		fmt.Sprintf("node-%d elected", leader),
		fmt.Sprintf("node-%d lost: taken", leader), fmt.Sprintf("node-%d elected",
			leader), fmt.Sprintf("node-%d resigned", leader),
	}
	assert.Len(t, news, 2*terms+2)
	// The one before may hear of its own end after the successor has begun.
	assert.Equal(t, want, slices.DeleteFunc(news, func(s string) bool {
		return !strings.HasPrefix(s, fmt.Sprintf("node-%d ", leader))
	}))
}
