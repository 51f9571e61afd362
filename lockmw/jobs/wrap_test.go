package jobs_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errOwn = errors.New("the disk is full")

func newKeeper(t *testing.T) (*renewer.Keeper, *script.Store) {
	s := script.New()
	k, err := renewer.New(s, renewer.Config{TTL: renewer.DefaultTTL})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, k.Shutdown(context.Background())) })
	return k, s
}

// itself is the key of a job whose arguments are its key.
func itself(key string) string { return key }

// named is that of one whose key may be that of a limit, or of no job at all.
func named(key string) lockmw.Set {
	switch key {
	case "closed":
		return lockmw.Limit(key, 0)
	case "below 0":
		return lockmw.Limit(key, -1)
	case "invalid":
		return lockmw.Invalid(errOwn)
	}
	return lockmw.All(key)
}

// The work has the arguments, the lock and its name; the lock is free
// afterwards, also when it panics.
func TestJobThatRuns(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]jobs.Option{"email": nil, "report": {lockmw.Operation("report")}} {
		k, s := newKeeper(t)
		run := jobs.Wrap(k, itself, func(ctx context.Context, key string) error {
			assert.Equal(t, "u1", key)
			assert.True(t, lockmw.Held(ctx, key))
			if ctx.Value(t) != nil {
				panic(errOwn)
			}
			return errOwn
		}, opts...)
		d := jobs.Delivery{Kind: "email"}
		assert.Equal(t, jobs.Result{Outcome: jobs.OutcomeRan, Err: errOwn}, run(t.Context(), d, "u1"))
		assert.Equal(t, name, s.Calls(script.Acquire)[0].Claims[0].Holder.Operation)
		assert.PanicsWithValue(t, errOwn, func() {
			run(context.WithValue(t.Context(), t, true), d, "u1")
		})
		assert.Empty(t, s.Owner("u1"))
	}
}

// What the adapter is told of a job that did not run.
func TestJobThatDoesNotRun(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	held := func(s *script.Store) { s.Overwrite("u1", store.Holder{}, 24*hour) }
	down := func(s *script.Store) { s.Default(script.Acquire, script.Fail(errOwn)) }
	hangs := func(s *script.Store) { s.Default(script.Acquire, script.Hang()) }
	isCopy := func(context.Context, string, time.Duration) error { return nil }
	notCopied := func(context.Context, string, time.Duration) error { return errOwn }
	for name, c := range map[string]struct {
		key      string
		delivery jobs.Delivery
		option   jobs.Option
		away     func(s *script.Store)
		time     time.Duration // of the job
		want     jobs.Outcome
		is       error
		waits    time.Duration
	}{
		"held": {
			key: "u1", away: held, want: jobs.OutcomeBack, is: renewer.ErrBusy, waits: time.Second,
		},
		"held, in three seconds' work": {
			key: "u1", away: held, time: 3 * time.Second, want: jobs.OutcomeBack, is: renewer.ErrBusy,
			waits: 375 * time.Millisecond,
		},
		"held, in a minute's work": {
			key: "u1", option: lockmw.Wait(hour), away: held, time: time.Minute,
			want: jobs.OutcomeBack, is: renewer.ErrBusy, waits: time.Minute / 8,
		},
		"held, no wait": {
			key: "u1", option: lockmw.Refuse(), away: held, want: jobs.OutcomeBack, is: renewer.ErrBusy,
		},
		"held, no slot": {
			key: "u1", delivery: jobs.Delivery{Slots: jobs.NewSlots(1)}, away: held,
			want: jobs.OutcomeBack, is: renewer.ErrBusy,
		},
		"down": {key: "u1", away: down, want: jobs.OutcomeBack, is: renewer.ErrUnavailable},
		"no answer, in two seconds' work": { // a keeper's own patience is longer
			key: "u1", away: hangs, time: 2 * time.Second, want: jobs.OutcomeBack,
			is: renewer.ErrUnavailable, waits: 250 * time.Millisecond,
		},
		"skipped": {
			key: "u1", option: lockmw.Skip(), away: held, want: jobs.OutcomeDone,
		},
		"closed": {
			key: "closed", away: func(*script.Store) {}, want: jobs.OutcomeBack,
			is: renewer.ErrLimitClosed,
		},
		"no name": {
			away: func(*script.Store) {}, want: jobs.OutcomeUnusable, is: renewer.ErrName,
		},
		"no name, and why": {
			key: "invalid", away: func(*script.Store) {}, want: jobs.OutcomeUnusable, is: errOwn,
		},
		"a limit below 0": {
			key: "below 0", delivery: jobs.Delivery{Last: true, Copy: isCopy},
			away: func(*script.Store) {}, want: jobs.OutcomeFailed, is: renewer.ErrConfig,
		},
		"held, no bound but the eighth": {
			key: "u1", option: lockmw.Wait(lockmw.NoBound), away: held, time: time.Minute,
			want: jobs.OutcomeBack, is: renewer.ErrBusy, waits: time.Minute / 8,
		},
		"given up by its framework": {
			key: "u1", option: lockmw.Wait(hour), away: held, time: -1,
			want: jobs.OutcomeEnded, is: context.DeadlineExceeded,
		},
		"last attempt": {
			key: "u1", delivery: jobs.Delivery{Last: true}, away: held, time: time.Minute,
			want: jobs.OutcomeFailed, is: renewer.ErrBusy, waits: time.Minute / 8,
		},
		"last attempt, down": {
			key: "u1", delivery: jobs.Delivery{Last: true}, away: down, time: time.Minute,
			want: jobs.OutcomeFailed, is: renewer.ErrUnavailable, waits: time.Minute / 8,
		},
		"last attempt, a copy": {
			key: "u1", delivery: jobs.Delivery{Last: true, Copy: isCopy}, away: held,
			want: jobs.OutcomeCopied, is: renewer.ErrBusy,
		},
		"last attempt, no copy to be had": {
			key: "u1", delivery: jobs.Delivery{Last: true, Copy: notCopied}, option: lockmw.Refuse(),
			away: held, time: time.Minute, want: jobs.OutcomeFailed, is: errOwn,
			waits: time.Minute - 5*time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, s := newKeeper(t)
				c.away(s)
				var opts []jobs.Option
				if c.option != nil {
					opts = append(opts, c.option)
				}
				run := jobs.Wrap(k, named, func(context.Context, string) error {
					t.Error("it ran")
					return nil
				}, opts...)
				ctx, begun := t.Context(), time.Now()
				if c.time != 0 {
					limited, cancel := context.WithTimeout(ctx, c.time)
					defer cancel()
					ctx = limited
				}
				c.delivery.Kind = "email"
				r := run(ctx, c.delivery, c.key)
				assert.Equal(t, c.want, r.Outcome)
				require.ErrorIs(t, r.Err, c.is)
				assert.Equal(t, c.waits, time.Since(begun))
				comes := r.Outcome == jobs.OutcomeBack || r.Outcome == jobs.OutcomeCopied ||
					r.Outcome == jobs.OutcomeEnded
				assert.Equal(t, comes, r.RetryIn > 0, "%v", r.RetryIn)
				assert.Equal(t, r.Outcome == jobs.OutcomeCopied, r.Copy != "")
			})
		})
	}
}

// It is about what the option says, else as long as its lock was held; each
// job's own.
func TestDelayOfJobsThatDidNotRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		held         time.Duration // 0: the store is down
		told, answer time.Duration
	}{
		"held":          {held: time.Millisecond, answer: time.Second},
		"held for long": {held: 20 * time.Second, answer: 10 * time.Second},
		"held, as told": {held: time.Hour, told: time.Minute, answer: time.Minute},
		"down":          {answer: 5 * time.Second},
		"down, as told": {told: time.Hour, answer: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				k, s := newKeeper(t)
				s.Default(script.Acquire, script.Fail(errOwn))
				if c.held > 0 {
					s.Default(script.Acquire, script.Pass())
					s.Overwrite("u1", store.Holder{Node: "n"}, 2*time.Hour)
					<-time.After(c.held)
				}
				opts := []jobs.Option{lockmw.Refuse()}
				if c.told > 0 {
					opts = append(opts, jobs.RetryIn(c.told))
				}
				run := jobs.Wrap(k, itself, func(context.Context, string) error { return nil }, opts...)
				seen := make(map[time.Duration]bool)
				for range 50 {
					r := run(t.Context(), jobs.Delivery{Kind: "email"}, "u1")
					assert.Equal(t, jobs.OutcomeBack, r.Outcome)
					assert.GreaterOrEqual(t, r.RetryIn, c.answer/2)
					assert.Less(t, r.RetryIn, c.answer*3/2)
					seen[r.RetryIn] = true
				}
				assert.Greater(t, len(seen), 40, "jitter")
			})
		})
	}
}

// A copy that could not be made is tried again, by the same ID: the queue may
// have it already.
func TestCopyIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, s := newKeeper(t)
		s.Overwrite("u1", store.Holder{}, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begun, ids := time.Now(), make(map[string]int)
		var asked []time.Duration
		r := jobs.Wrap(k, itself, func(context.Context, string) error { return nil }, lockmw.Refuse())(
			ctx, jobs.Delivery{Kind: "email", Last: true, Copy: func(
				ctx context.Context, id string, in time.Duration,
			) error {
				deadline, _ := ctx.Deadline()
				assert.Equal(t, begun.Add(55*time.Second), deadline, "time to tell the framework")
				ids[id]++
				asked = append(asked, in)
				if ids[id] < 3 {
					return errOwn
				}
				return nil
			}}, "u1")
		assert.Equal(t, jobs.OutcomeCopied, r.Outcome)
		assert.Equal(t, map[string]int{r.Copy: 3}, ids)
		assert.Equal(t, []time.Duration{r.RetryIn, r.RetryIn, r.RetryIn}, asked)
	})
}

// Of jobs on their last attempt one of a key waits, and the next fails at once.
func TestLastAttemptWithoutASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, s := newKeeper(t)
		s.Overwrite("u1", store.Holder{}, time.Hour)
		run := jobs.Wrap(k, itself, func(context.Context, string) error { return nil })
		d := jobs.Delivery{Kind: "email", Last: true, Slots: jobs.NewSlots(8)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		first := make(chan jobs.Result)
		go func() { first <- run(ctx, d, "u1") }()
		synctest.Wait()
		begun, second := time.Now(), run(ctx, d, "u1")
		assert.Equal(t, jobs.OutcomeFailed, second.Outcome)
		assert.True(t, second.Crowded)
		assert.Zero(t, time.Since(begun))
		s.Delete("u1")
		assert.Equal(t, jobs.Result{Outcome: jobs.OutcomeRan}, <-first)
	})
}

// A job on its last attempt that its framework gives up while it pauses has not
// failed: one that is asked what becomes of it puts it back.
func TestLastAttemptThatIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, s := newKeeper(t)
		s.Default(script.Acquire, script.Fail(errOwn))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		r := jobs.Wrap(k, itself, func(context.Context, string) error { return nil })(
			ctx, jobs.Delivery{Kind: "email", Last: true}, "u1")
		assert.Equal(t, jobs.OutcomeEnded, r.Outcome)
		require.ErrorIs(t, r.Err, renewer.ErrUnavailable)
		assert.Positive(t, r.RetryIn)
	})
}

// By a share of its own a process runs a job whose lock's store is away, one at
// a time.
func TestLocalShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, s := newKeeper(t)
		s.Default(script.Acquire, script.Fail(errOwn))
		run := jobs.Wrap(k, named, func(context.Context, string) error {
			<-time.After(time.Minute)
			return errOwn
		}, lockmw.LocalShare(3))
		d := jobs.Delivery{Kind: "email"}
		assert.Equal(t, jobs.OutcomeBack, run(t.Context(), d, "u1").Outcome, "a fail-over, perhaps")
		<-time.After(k.Config().FailOver)
		require.Positive(t, k.Outage("u1"))
		go func() {
			<-time.After(time.Second)
			assert.Equal(t, jobs.OutcomeBack, run(t.Context(), d, "u1").Outcome)
		}()
		assert.Equal(t, jobs.Result{Outcome: jobs.OutcomeRan, Err: errOwn}, run(t.Context(), d, "u1"))
	})
}

// A job that has run is not refused, though a lock that it takes by itself is.
func TestALockOfTheJobsOwnIsBusy(t *testing.T) {
	t.Parallel()
	k, s := newKeeper(t)
	s.Overwrite("inner", store.Holder{}, time.Hour)
	run := jobs.Wrap(k, itself, func(ctx context.Context, _ string) error {
		return lockmw.Run(ctx, k, "inner", nothing, lockmw.Refuse())
	})
	r := run(t.Context(), jobs.Delivery{Kind: "email"}, "u1")
	assert.Equal(t, jobs.OutcomeRan, r.Outcome)
	require.ErrorIs(t, r.Err, renewer.ErrBusy)
}

func nothing(context.Context) error { return nil }

// A process of this version finds the refusals of others by this mark: it must
// stay as it is.
func TestTheMarkOfARefusalStaysAsItIs(t *testing.T) {
	t.Parallel()
	k, s := newKeeper(t)
	s.Script(script.Acquire, script.Taken(store.Holder{}, time.Minute))
	r := jobs.Wrap(k, itself, func(context.Context, string) error { return nil }, lockmw.Refuse())(
		t.Context(), jobs.Delivery{Kind: "order"}, "u1")
	// printf %s u1 | sha256sum | cut -c1-16
	assert.Equal(t, "[lock_hash=bb82030dbc2bcaba]", r.Mark)
}

func TestWhatCannotBeMeantPanics(t *testing.T) {
	t.Parallel()
	k, _ := newKeeper(t)
	work := func(context.Context, string) error { return nil }
	for want, f := range map[string]func(){
		"needs a keeper (renewer.New)":  func() { jobs.Wrap(nil, itself, work) },
		"a key function":                func() { jobs.Wrap[string, string](k, nil, work) },
		"and a function":                func() { jobs.Wrap[string](k, itself, nil) },
		"Wait(-1s): give how long":      func() { jobs.Wrap(k, itself, work, lockmw.Wait(-time.Second)) },
		"RetryIn(0s) can't be meant":    func() { jobs.RetryIn(0) },
		"RetryIn(5ns) can't be meant":   func() { jobs.RetryIn(5) },
		"InLine needs the queue":        func() { jobs.InLine(nil) },
		"MaxHold":                       func() { jobs.Wrap(k, itself, work, lockmw.MaxHold(1)) },
		"a *script.Store does not know": func() { jobs.Wrap(k, itself, work, lockmw.Replace()) },
	} {
		func() {
			defer func() {
				message, _ := recover().(string)
				assert.Contains(t, message, "lockbeat: ", want)
				assert.Contains(t, message, want)
			}()
			f()
		}()
	}
	jobs.Wrap(k, itself, work, lockmw.Replace(), lockmw.Skip()) // the later one counts
}
