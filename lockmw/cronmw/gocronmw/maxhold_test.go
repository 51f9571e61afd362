package gocronmw_test

import (
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/gocronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestMaxHoldOfAJob(t *testing.T) {
	t.Parallel()
	for bound, held := range map[time.Duration]time.Duration{
		0: 2 * minute, 5 * minute: 5 * minute, -1: 10 * minute,
	} {
		inBubble(t, func(t *testing.T, b *bed) {
			l, err := gocronmw.NewLocker(b.keeper("a", func(c *renewer.Config) {
				c.MaxHold = 2 * minute
			}), gocronmw.Config{MaxHold: bound})
			require.NoError(t, err)
			s := b.scheduler()
			_, err = l.NewJob(s, gocron.DurationJob(time.Hour),
				gocron.NewTask(func() { elapse(10 * minute) }), gocron.WithName("job"))
			require.NoError(t, err)
			s.Start()
			elapse(time.Hour + held - time.Second)
			name := b.store.Calls(script.Acquire)[0].Claims[0].Name
			assert.NotEmpty(t, b.store.Owner(name), bound)
			elapse(renewer.DefaultTTL + 2*time.Second)
			assert.Empty(t, b.store.Owner(name), bound)
			elapse(10 * minute) // the job has ended by then
		})
	}
	inBubble(t, func(t *testing.T, b *bed) {
		_, err := gocronmw.NewLocker(b.keeper("a"), gocronmw.Config{MaxHold: time.Second})
		require.ErrorIs(t, err, renewer.ErrConfig)
	})
}
