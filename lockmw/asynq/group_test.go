package asynqmw_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// digest is the payload of an aggregated task.
type digest struct{ Texts []string }

// aggregate makes one task "order" of a group's tasks.
func aggregate(t *testing.T, opts ...asynq.Option) asynq.GroupAggregatorFunc {
	return func(group string, tasks []*asynq.Task) *asynq.Task {
		var d digest
		for _, task := range tasks {
			d.Texts = append(d.Texts, string(task.Payload()))
		}
		payload, err := json.Marshal(d)
		assert.NoError(t, err)
		return asynq.NewTaskWithHeaders("order", payload,
			map[string]string{asynqmw.GroupHeader: group}, opts...)
	}
}

// digests notes what is handled of each group.
type digests struct {
	mu     sync.Mutex
	texts  map[string][]string
	gauges map[string]*gauge
}

func (d *digests) handle(ctx context.Context, t *testing.T, texts []string) {
	group, err := asynqmw.GroupOf(asynqmw.Task(ctx))
	assert.NoError(t, err)
	d.mu.Lock()
	g := d.gauges[group]
	if g == nil {
		g = new(gauge)
		d.gauges[group] = g
	}
	d.texts[group] = append(d.texts[group], texts...)
	d.mu.Unlock()
	g.enter()
	work(ctx, 100*time.Millisecond)
	g.leave()
}

func (d *digests) of(group string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	texts := slices.Clone(d.texts[group])
	slices.Sort(texts)
	return texts
}

// Two servers aggregate and run the tasks of two groups. The lock of one group is held, until some
// aggregated tasks of it have been refused.
func TestAggregatedTasksRunUnderTheLockOfTheirGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		aggregated []asynq.Option
		lock       func(e *env) asynqmw.Option
	}{
		"attempts to spare": {nil, func(*env) asynqmw.Option { return retriesIn }},
		"in line": {nil, func(e *env) asynqmw.Option {
			return asynqmw.InLine(e.redis())
		}},
		"last attempt": {
			[]asynq.Option{asynq.MaxRetry(0)},
			func(e *env) asynqmw.Option { return asynqmw.Requeue(e.client) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			everywhere(t, func(t *testing.T, e *env) {
				release := hold(t, e.keeper(), "u1")
				d := digests{texts: map[string][]string{}, gauges: map[string]*gauge{}}
				for range 2 {
					e.serve(asynqmw.HandleGroup(e.keeper(),
						func(ctx context.Context, g digest) error {
							d.handle(ctx, t, g.Texts)
							return nil
						}, asynqmw.Wait(0), c.lock(e)), func(cfg *asynq.Config) {
						cfg.GroupAggregator = aggregate(t, c.aggregated...)
						cfg.GroupGracePeriod, cfg.GroupMaxSize = time.Second, 2
					})
				}
				want := []string{"1", "2", "3", "4", "5", "6"}
				for _, text := range want {
					e.enqueueGroup("u1", text)
				}
				e.enqueueGroup("u2", "7")
				require.Eventually(t, func() bool {
					return len(d.of("u2")) == 1 && e.refusals()+len(d.of("u1")) >= 2
				}, soon, tick)
				assert.Empty(t, d.of("u1"), "its lock is held")
				release()
				require.Eventually(t, func() bool {
					return len(d.of("u1")) >= len(want)
				}, soon, tick)
				assert.Equal(t, want, d.of("u1"))
				assert.Zero(t, d.gauges["u1"].overlaps.Load())
				assert.Greater(t, d.gauges["u1"].runs.Load(), int64(1))
			})
		})
	}
}

func (e *env) enqueueGroup(group, text string) {
	_, err := e.client.Enqueue(asynq.NewTask("text", []byte(text)), asynq.Group(group))
	require.NoError(e.t, err)
}

// refusals counts the tasks that wait outside of workers: refused ones, and copies.
func (e *env) refusals() int {
	info, err := e.inspector.GetQueueInfo("default")
	if err != nil {
		return 0
	}
	return info.Retry + info.Scheduled
}

func TestAggregatedTaskWithoutItsGroupIsArchived(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	e := onEmbedded(t)
	mux := asynq.NewServeMux()
	mux.Handle("typed", asynqmw.HandleGroup(k, func(context.Context, digest) error {
		t.Error("it ran")
		return nil
	}))
	mux.Handle("raw", asynqmw.Middleware(k, asynqmw.GroupOf)(
		asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
			t.Error("it ran")
			return nil
		})))
	e.serve(mux)
	for _, typ := range []string{"typed", "raw"} {
		queued, err := e.client.Enqueue(asynq.NewTask(typ, []byte("{}")))
		require.NoError(t, err)
		info := e.awaitState(queued.ID, asynq.TaskStateArchived)
		assert.Contains(t, info.LastErr, "it has no header Lockbeat-Group: make it by")
		assert.Zero(t, info.Retried)
	}
	assert.Empty(t, store.Calls(script.Acquire))

	_, err := asynqmw.GroupOf(asynq.NewTask("raw", nil))
	require.Error(t, err)
	h := asynqmw.Middleware(k, asynqmw.GroupOf)(asynq.NotFoundHandler())
	require.ErrorIs(t, h.ProcessTask(t.Context(), asynq.NewTask("raw", nil)), asynqmw.ErrPayload)
}
