package schedulers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw/internal/schedulers"
	"github.com/lockbeat/lockbeat/renewer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSettleCheck(t *testing.T) {
	t.Parallel()
	for d, ok := range map[time.Duration]bool{
		-time.Hour: false, -1: false, 0: true, 1: true,
		schedulers.DefaultSettle: true, time.Hour: true,
	} {
		err := schedulers.Settle(d).Check()
		assert.Equal(t, ok, err == nil, "%v: %v", d, err)
		if !ok {
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.ErrorContains(t, err, "can't be negative")
		}
	}
}

func TestSettlePass(t *testing.T) {
	t.Parallel()
	errEnded := errors.New("the lead is lost")
	for name, c := range map[string]struct {
		settle time.Duration
		ends   time.Duration // when the context does: 0 for never, -1 for already
		took   time.Duration
		want   error
	}{
		"it passes": {settle: time.Second, took: time.Second},
		"none":      {},
		"ends before": {
			settle: time.Hour, ends: time.Minute, took: time.Minute,
			want: errEnded,
		},
		"ends afterwards":         {settle: time.Minute, ends: time.Hour, took: time.Minute},
		"has ended":               {settle: time.Hour, ends: -1, want: errEnded},
		"has ended, none to pass": {ends: -1, want: errEnded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				switch {
				case c.ends < 0:
					cancel(errEnded)
				case c.ends > 0:
					defer time.AfterFunc(c.ends, func() { cancel(errEnded) }).Stop()
				}
				begun := time.Now()
				assert.Equal(t, c.want, schedulers.Settle(c.settle).Pass(ctx))
				assert.Equal(t, c.took, time.Since(begun))
			})
		})
	}
}
