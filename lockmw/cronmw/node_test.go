package cronmw_test

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

func TestNewNamesEachFault(t *testing.T) {
	t.Parallel()
	_, err := cronmw.New(t.Context(), nil, cronmw.Config{Grace: -1})
	require.ErrorIs(t, err, renewer.ErrConfig)
	for _, want := range []string{
		"needs a keeper", "OnTick is nil", "cronmw.LogTicks(logger)",
		"Grace is -1ns",
	} {
		require.ErrorContains(t, err, want)
	}
	inBubble(t, func(t *testing.T, b *bed) {
		_, err = cronmw.New(t.Context(), b.keeper("a"),
			cronmw.Config{OnTick: b.log.add, Grace: time.Millisecond - 1})
	})
	require.ErrorIs(t, err, renewer.ErrConfig)
	require.ErrorContains(t, err, "it must be at least 1ms")
}

// from is a schedule that counts from when it is asked.
type from time.Duration

func (f from) Next(t time.Time) time.Time { return t.Add(time.Duration(f)) }

func TestRefusedJobs(t *testing.T) {
	t.Parallel()
	everyMinute := cronmw.Every(minute)
	for _, c := range []struct {
		label, name string
		schedule    cronmw.Schedule
		fn          func(context.Context) error
		opts        []cronmw.Option
		kind        error
		want        string
	}{
		{"no name", "", everyMinute, nothing, nil, renewer.ErrName, "it is empty"},
		{
			"long name", strings.Repeat("x", renewer.MaxName-len("cron:")+1), everyMinute, nothing,
			nil,
			renewer.ErrName, "bytes, above the limit",
		},
		{
			"no schedule", "job", nil, nothing, nil, renewer.ErrConfig,
			"it needs a schedule and a function",
		},
		{
			"no function", "job", everyMinute, nil, nil, renewer.ErrConfig,
			"it needs a schedule and a function",
		},
		{
			"grace above an interval", "job", everyMinute, nothing,
			[]cronmw.Option{cronmw.Grace(minute + 1)},
			renewer.ErrConfig,
			`job "job": lockbeat: invalid configuration: Grace is 1m0.000000001s, but the ` +
				`schedule has ticks 1m0s apart`,
		},
		{
			"negative grace", "job", everyMinute, nothing,
			[]cronmw.Option{cronmw.Grace(-1)},
			renewer.ErrConfig, "can't be negative",
		},
		{
			"too frequent", "job", cronmw.Every(time.Millisecond), nothing, nil,
			renewer.ErrConfig,
			"Grace comes to 0s",
		},
		{
			"no ticks", "job", once(time.Time{}), nothing, nil, renewer.ErrConfig,
			"the schedule has no tick",
		},
		{
			"counts from the start", "job", cron.Every(30 * time.Second), nothing, nil,
			renewer.ErrConfig, "such as cronmw.Every(30s)",
		},
		{
			"counts from when it is asked", "job", from(minute), nothing, nil, renewer.ErrConfig,
			"no two nodes have the same ones",
		},
		{
			"stands still", "job", from(0), nothing, nil, renewer.ErrConfig,
			"the schedule stands still",
		},
	} {
		t.Run(c.label, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				n := b.node("a")
				_, err := n.Job(c.name, c.schedule, c.fn, c.opts...)
				require.ErrorIs(t, err, c.kind)
				require.ErrorContains(t, err, c.want)
				_, err = n.Job("job", everyMinute, nothing)
				require.NoError(t, err, "a job that was refused has not taken the name")
			})
		})
	}
}

// Two jobs of a name on one node would take each other's ticks. On two nodes they are the same job.
func TestNamesAreOnceANode(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		n := b.node("a")
		add := func(name string) error {
			_, err := n.Job(name, cronmw.Every(minute), nothing)
			return err
		}
		require.NoError(t, add("job"))
		require.NoError(t, add("job:run"), "the key of a run that is waited for is another")
		err := add("job")
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, `job "job": lockbeat: invalid configuration: this process has a job of this name already`)
		b.job("b", cronmw.Every(minute), nothing)
		n.Forget("job")
		require.NoError(t, add("job"))
	})
}

// The shortest time between two ticks counts, not the first.
func TestGraceAgainstIrregularSchedules(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]time.Duration{
		"*/7 * * * *":             4 * time.Minute,   // from :56 to :00
		"0,58,59 23 31 12 *":      minute,            // on one day of the year
		"0 0 29 2 *":              math.MaxInt64 - 1, // one in four years: any grace will do
		"30 4 1,15 * 5":           24 * time.Hour,
		"TZ=Asia/Tokyo 5 0 * * *": 24 * time.Hour,
		"@hourly":                 time.Hour,
	} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				n, c := b.node("a"), cron.New(cron.WithLocation(time.UTC))
				_, err := n.AddFunc(c, spec, "fits", nothing,
					cronmw.Grace(want.Truncate(time.Millisecond)))
				require.NoError(t, err)
				_, err = n.AddFunc(c, spec, "does not", nothing, cronmw.Grace(want+1))
				if want != math.MaxInt64-1 {
					require.ErrorIs(t, err, renewer.ErrConfig)
					require.ErrorContains(t, err, "ticks "+want.String()+" apart")
				}
				assert.Len(t, c.Entries(), 2-btoi(err != nil))
			})
		})
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
