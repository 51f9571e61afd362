package subscription

import (
	"context"
	"math/rand/v2"
	"time"
)

// Between these the pause before a new connection doubles.
const (
	minPause = 50 * time.Millisecond
	maxPause = 2 * time.Second
)

// loop keeps a subscription to one server for as long as anything is watched
// there. It is the only one who opens connections to it.
type loop struct {
	config *Config
	server *server
	addr   string      // of the server; "" without a cluster, or when it is not known
	ended  func() bool // reports whether nothing is watched any more, so that the loop may end
}

func (l *loop) run(ctx context.Context) {
	pause := minPause
	for {
		live, err := serve(ctx, l.config, l.server, l.addr)
		if ctx.Err() != nil {
			err = ErrClosed
		}
		if err != nil {
			for _, w := range l.server.watches() {
				w.call("", err)
			}
		}
		if err != nil && ctx.Err() == nil && l.config.Topology != nil {
			l.config.Topology.Learn(ctx) // the server may have lost its slots, also by failing
		}
		if l.ended() {
			return
		}
		if err == nil {
			// It was idle, but for a watch that has just begun; or its server
			// is not the primary any more.
			continue
		}
		if live {
			pause = minPause
		}
		// Jitter, lest all processes come back to a restarted server at once.
		l.wait(ctx, pause/2+rand.N(pause/2+1))
		pause = min(2*pause, maxPause)
	}
}

// wait returns after d, or when there is nothing left to wait for.
func (l *loop) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-l.server.kick:
			if l.server.idle() {
				return
			}
		}
	}
}
