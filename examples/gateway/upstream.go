package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/examples/internal/demo"
)

// upstream is the model server. It knows of no limits, and counts the streams
// that run at once.
type upstream struct {
	stops sync.Map // of context.CancelFunc, by stream

	mu        sync.Mutex
	now, most map[string]int // streams, by what they count for
	changed   chan struct{}  // closed when one has begun or ended
}

func newUpstream() *upstream {
	return &upstream{now: make(map[string]int), changed: make(chan struct{})}
}

func (u *upstream) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{stream}", u.stream)
	mux.HandleFunc("DELETE /{stream}", func(_ http.ResponseWriter, r *http.Request) {
		if stop, ok := u.stops.Load(r.PathValue("stream")); ok {
			stop.(context.CancelFunc)() //nolint:forcetypeassert // it holds nothing else
		}
	})
	return mux
}

const theEnd = "data: the end\n"

// stream sends an event each 100 ms. It ends when it is told to, or its gateway
// has gone.
func (u *upstream) stream(w http.ResponseWriter, r *http.Request) {
	id, events := r.PathValue("stream"), r.FormValue("events")
	ctx, stop := context.WithCancel(r.Context())
	u.stops.Store(id, stop)
	u.count(r.Form["for"], 1)
	defer func() { // before the gateway sees the end of the answer
		stop()
		u.stops.Delete(id)
		u.count(r.Form["for"], -1)
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for left, _ := strconv.Atoi(events); left > 0; left-- {
		_, _ = fmt.Fprintf(w, "data: %d words are left\n", left)
		_ = http.NewResponseController(w).Flush()
		if _, err := demo.Wait(ctx, tick.C); err != nil {
			return
		}
	}
	_, _ = fmt.Fprint(w, theEnd)
}

func (u *upstream) count(all []string, n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range all {
		u.now[one] += n
		u.most[one] = max(u.most[one], u.now[one])
	}
	close(u.changed)
	u.changed = make(chan struct{})
}

// phase forgets what was most.
func (u *upstream) phase() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.most = maps.Clone(u.now)
}

// look returns how many run now of all that begin so, the most that one had in
// this phase, and what is closed when that changes.
func (u *upstream) look(prefix string) (now, most int, changed <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for one, n := range u.most {
		if strings.HasPrefix(one, prefix) {
			now, most = now+u.now[one], max(most, n)
		}
	}
	return now, most, u.changed
}

// await waits until so many run, from least to most.
func (u *upstream) await(ctx context.Context, prefix string, least, most int) error {
	for {
		now, _, changed := u.look(prefix)
		if least <= now && now <= most {
			return nil
		}
		if _, err := demo.Wait(ctx, changed); err != nil {
			return fmt.Errorf("wait for %q, %d now: %w", prefix, now, err)
		}
	}
}
