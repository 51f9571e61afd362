package cronmw_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

func TestMaxHoldOfARun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		fn := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		job := b.job("a", cronmw.Every(time.Hour), fn, cronmw.MaxHold(5*minute))
		elapse(time.Hour)
		begun := time.Now()
		tick := job.Fire(t.Context())
		var lost *renewer.LostError
		require.ErrorAs(t, tick.Err, &lost)
		assert.Equal(t, renewer.ReasonMaxHold, lost.Reason)
		assert.Equal(t, 5*minute, time.Since(begun))

		_, err := b.node("b").Job("job", cronmw.Every(time.Hour), fn, cronmw.MaxHold(time.Second))
		require.ErrorIs(t, err, renewer.ErrConfig)
	})
}
