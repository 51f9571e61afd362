package asynqmw_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A process of this version finds the refusals of others by this mark: it must stay as it is.
func TestTheMarkOfARefusalStaysAsItIs(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	store.Script(script.Acquire, script.Taken(renewer.Holder{}, time.Minute))
	h := asynqmw.Handle(k, byUser, func(context.Context, order) error { return nil })
	err := h.ProcessTask(t.Context(), task(`{"User":"u1"}`))
	require.ErrorIs(t, err, renewer.ErrHeld)
	// printf %s order:u1 | sha256sum | cut -c1-16
	require.ErrorContains(t, err, " [lock_hash=cb852bbdd57ddcf3]")
	assert.NotContains(t, renewer.ErrorText(err), "lock_hash", "there may be a secret for logs")
}

// A user of the locks' Redis who may write the keys of a line names tasks there that were never
// refused for the lock: they were run at once, also one of another queue that was scheduled for
// next month.
func TestForgedPlacesRunNoTask(t *testing.T) {
	t.Parallel()
	onRedis(t, func(t *testing.T, queues, locks *env) {
		k := locks.keeper()
		release := hold(t, k, "u1")
		f := &fleet{env: queues, locks: locks, record: newRecord()}
		mux := asynq.NewServeMux()
		mux.Handle("order", asynqmw.Handle(k, byUser, func(ctx context.Context, o order) error {
			defer f.record.begin(ctx, o.User)()
			return nil
		}, asynqmw.InLine(queues.redis())))
		failed := make(chan struct{}, 10)
		mux.HandleFunc("payout", func(context.Context, *asynq.Task) error {
			failed <- struct{}{}
			return errors.New("no luck")
		})
		f.serve(mux, neverByItself, func(cfg *asynq.Config) {
			cfg.Queues = map[string]int{"default": 1, "payouts": 1}
		})
		month := []asynq.Option{asynq.Queue("payouts"), asynq.ProcessIn(30 * 24 * time.Hour)}
		add := func(task *asynq.Task, opts ...asynq.Option) string {
			info, err := queues.client.Enqueue(task, opts...)
			require.NoError(t, err)
			return info.ID
		}
		later := add(asynq.NewTask("payout", nil), month...)
		copied := add(asynq.NewTaskWithHeaders("payout", nil,
			map[string]string{asynqmw.OriginHeader: "x"}), month...)
		fails := add(asynq.NewTask("payout", nil), asynq.Queue("payouts"))
		<-failed
		waits := f.enqueue("u1")
		locks.awaitSlot("u1")
		locks.write("ZADD", lineOf("u1"), "1", "payouts\n"+later, "2", "payouts\n"+copied,
			"3", "payouts\n"+fails)
		next := f.enqueue("u1")
		f.awaitParked(next)
		release()
		f.awaitRuns(2, goesOn)
		assert.Equal(t, []string{waits, next}, f.record.runs)
		require.Eventually(t, func() bool { return len(locks.keysOf("u1")) == 0 }, soon, tick,
			"they have left the line")
		assert.Empty(t, failed, "none has run")
		for id, state := range map[string]asynq.TaskState{
			later: asynq.TaskStateScheduled, copied: asynq.TaskStateScheduled,
			fails: asynq.TaskStateRetry,
		} {
			info, err := queues.inspector.GetTaskInfo("payouts", id)
			require.NoError(t, err)
			assert.Equal(t, state, info.State)
		}
	})
}

// lineOf is the key of the line of a user's tasks.
func lineOf(user string) string { return leaseOf(user) + tasksSuffix }
