package worker

import (
	"context"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
)

const (
	pulse = 10 * time.Millisecond
	// what this many pulses miss is a pause: well below the margin
	pauseFrom = 40 * time.Millisecond
)

// watchPauses tells when the process was stopped, or starved of the processor.
func watchPauses(ctx context.Context, t *teller) {
	ticks := time.NewTicker(pulse)
	defer ticks.Stop()
	last := history.Now()
	for ctx.Err() == nil {
		select {
		case <-ticks.C:
		case <-ctx.Done():
		}
		now := history.Now()
		if time.Duration(now-last) > pauseFrom {
			t.tell(history.Event{Kind: history.Paused, At: last, Until: now})
		}
		last = now
	}
}
