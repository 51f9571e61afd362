package cronmw_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

func TestNewNamesEachFault(t *testing.T) {
	t.Parallel()
	_, err := cronmw.New(t.Context(), nil)
	require.ErrorIs(t, err, renewer.ErrConfig)
	require.ErrorContains(t, err, "needs a keeper")
}

// Without an Observer the log gets what no scheduler listens to.
func TestAFailedRunIsToldWithoutAnObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		k, err := renewer.New(memory.New(),
			renewer.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		node, err := cronmw.New(t.Context(), k)
		require.NoError(t, err)
		job, err := node.Job("report", cronmw.Every(minute), func(context.Context) error {
			return errors.New("no paper")
		})
		require.NoError(t, err)
		elapse(minute)
		job.Run()
		require.NoError(t, k.Shutdown(context.Background()))
		require.Contains(t, log.String(), `level=ERROR msg="run of a job" job=report outcome=ran`)
		require.Contains(t, log.String(), "no paper")
	})
}

// A name of a job that was not added, since an Observer has panicked, is free.
func TestAPanicOfAnObserverLeavesNoName(t *testing.T) {
	t.Parallel()
	o := &panics{left: 1}
	k, err := renewer.New(memory.New(), renewer.Config{Observer: o, Log: renewer.Silent})
	require.NoError(t, err)
	defer func() { require.NoError(t, k.Shutdown(context.Background())) }()
	node, err := cronmw.New(t.Context(), k)
	require.NoError(t, err)
	add := func() error {
		_, err := node.Job("report", cronmw.Every(minute), nothing)
		return err
	}
	require.Panics(t, func() { _ = add() })
	require.NoError(t, add())
	require.ErrorContains(t, add(), "has a job of this name already")
}

// panics is an Observer that does when it is told of runs.
type panics struct {
	renewer.NopObserver
	left int // so often
}

func (p *panics) Ran(context.Context, renewer.Run) {
	p.left--
	if p.left >= 0 {
		panic("an observer")
	}
}

func TestRefusedJobs(t *testing.T) {
	t.Parallel()
	everyMinute := cronmw.Every(minute)
	for label, c := range map[string]struct {
		name     string
		schedule cronmw.Schedule
		fn       func(context.Context) error
		opt      cronmw.Option
		kind     error
		want     string
	}{
		"no name": {"", everyMinute, nothing, nil, renewer.ErrName, "it is empty"},
		"long name": {
			strings.Repeat("x", store.MaxName-len("cron:")+1), everyMinute, nothing, nil,
			renewer.ErrName, "bytes, above the limit",
		},
		"no schedule": {
			"job", nil, nothing, nil, renewer.ErrConfig, "it needs a schedule and a function",
		},
		"no function": {
			"job", everyMinute, nil, nil, renewer.ErrConfig, "it needs a schedule and a function",
		},
		"grace above an interval": {
			"job", everyMinute, nothing, cronmw.Grace(minute + 1), renewer.ErrConfig,
			`job "job": lockbeat: invalid configuration: Grace is 1m0.000000001s, but the ` +
				`schedule has ticks 1m0s apart`,
		},
		"no ticks": {
			"job", once(time.Time{}), nothing, nil, renewer.ErrConfig, "the schedule has no tick",
		},
		"counts from when it is asked": {
			"job", cron.Every(30 * time.Second), nothing, nil, renewer.ErrConfig,
			"such as cronmw.Every(30s)",
		},
		"a bound below a heartbeat": {
			"job", everyMinute, nothing, lockmw.MaxHold(time.Second), renewer.ErrConfig, "MaxHold",
		},
		"a name that is there": {
			"taken", everyMinute, nothing, nil, renewer.ErrConfig, "has a job of this name already",
		},
	} {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			inFleet(t, func(t *testing.T, f *fleet) {
				n := f.add(0)
				_, err := n.Job("taken", everyMinute, nothing)
				require.NoError(t, err)
				var opts []cronmw.Option
				if c.opt != nil {
					opts = append(opts, c.opt)
				}
				_, err = n.Job(c.name, c.schedule, c.fn, opts...)
				require.ErrorIs(t, err, c.kind)
				require.ErrorContains(t, err, c.want)
				_, err = n.Job("job", everyMinute, nothing)
				require.NoError(t, err, "a job that was refused has not taken the name")
			})
		})
	}
}

func TestEvery(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		u, err := time.Parse("15:04:05.000", clock)
		require.NoError(t, err)
		return u
	}
	for _, c := range []struct {
		every       time.Duration
		after, want string
	}{
		{minute, "12:00:30.000", "12:01:00.000"},
		{minute, "12:01:00.000", "12:02:00.000"},
		{15 * minute, "12:59:59.999", "13:00:00.000"},
		{250 * time.Millisecond, "12:00:00.251", "12:00:00.500"},
	} {
		assert.Equal(t, at(c.want), cronmw.Every(c.every).Next(at(c.after)))
	}
	elsewhere := time.FixedZone("half past", 5*3600+1800)
	assert.Equal(t, at("14:00:00.000"),
		cronmw.Every(2*time.Hour).Next(at("12:30:00.000").In(elsewhere)).UTC(), "of UTC's hours")
	require.PanicsWithValue(t,
		"lockbeat: cronmw.Every(999µs) can't be meant: give at least a millisecond, such as a "+
			"minute",
		func() { cronmw.Every(999 * time.Microsecond) })
}
