package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// ping takes a round trip on a connection of its own every 5 ms, until ctx ends.
func ping(ctx context.Context, server *redistest.Server, into *histogram) error {
	client, err := server.NewClient()
	if err != nil {
		return err
	}
	defer client.Close()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		begun := time.Now()
		if err := client.Do(context.Background(), client.B().Ping().Build()).Error(); err != nil {
			return fmt.Errorf("PING: %w", err)
		}
		into.record(time.Since(begun))
	}
}

func stallTable(all []*holding, s scripts) table {
	t := table{{
		"", "scripts above 1 ms", "others above 1 ms", "the slowest", "a script takes",
		"PING p50", "p99", "p99.9",
	}}
	for _, h := range all {
		renewals, others := h.stalls(s)
		t.add(h.who, fmt.Sprint(len(renewals)), fmt.Sprint(len(others)), slowest(h.slow), h.scripts,
			h.ping.quantile(.5).String(), h.ping.quantile(.99).String(), h.ping.quantile(
				.999,
			).String())
	}
	return t
}

// stalls parts the slow commands into renewal scripts and others. The peer's
// scripts are all counted as renewals: it runs no others while it holds.
func (h *holding) stalls(s scripts) (renewals, others []slow) {
	for _, e := range h.slow {
		name := strings.ToUpper(e.command[0])
		if name == "EVALSHA" && (h.who == peer || slices.Contains(e.command, s.renew.sha)) {
			renewals = append(renewals, e)
		} else {
			others = append(others, e)
		}
	}
	return renewals, others
}

func slowest(entries []slow) string {
	if len(entries) == 0 {
		return "-"
	}
	most := slices.MaxFunc(entries, func(a, b slow) int { return int(a.took - b.took) })
	return fmt.Sprintf("%v %s", most.took, most.command[0])
}

// scriptAlone runs every renewal script a few times while nothing else does, and
// returns the slowest, each by the fastest of its runs: what the machine does
// besides can only add to a time, and does not hit the same script every time.
func scriptAlone(
	ctx context.Context, server *redistest.Server, s childSpec,
) (time.Duration, error) {
	r, err := newRaw(ctx, server.Addr(), s.Way, s.TTL)
	if err != nil {
		return 0, err
	}
	defer r.client.Close()
	r.most = renewOurs
	locks := make([]rawLock, s.Leases)
	for i := range locks {
		locks[i] = r.lock(leaseName(i), i)
	}
	// heartbeats come in no order of keys
	rand.Shuffle(len(locks), func(i, j int) { locks[i], locks[j] = locks[j], locks[i] })
	// Each run renews for longer than the one before, since a script
	// that finds nothing to prolong is quicker.
	r.ttl = millis(time.Hour)
	if _, err := r.renew(ctx, locks); err != nil { // before they lapse: their holder has gone
		return 0, err
	}
	const runs = 5
	best := make([]time.Duration, 0, len(locks)/renewOurs)
	if err := logFrom(server, 0); err != nil {
		return 0, err
	}
	for part := range slices.Chunk(locks, renewOurs) {
		fastest := time.Duration(-1)
		for run := range runs {
			r.ttl = millis(time.Duration(run+2) * time.Hour)
			took, err := timeScript(ctx, server, r, part)
			if err != nil {
				return 0, err
			}
			if fastest < 0 || took < fastest {
				fastest = took
			}
		}
		best = append(best, fastest)
	}
	return slices.Max(best), logFrom(server, slowFrom)
}

// timeScript renews once and asks the server how long the script took.
func timeScript(
	ctx context.Context, server *redistest.Server, r *raw, locks []rawLock,
) (time.Duration, error) {
	if err := server.Do("SLOWLOG", "RESET").Error(); err != nil {
		return 0, fmt.Errorf("SLOWLOG RESET: %w", err)
	}
	if lost, err := r.renew(ctx, locks); err != nil || lost > 0 {
		return 0, fmt.Errorf("%d leases lapsed when their holder had gone: %w", lost, err)
	}
	entries, err := slowlog(server)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if slices.Contains(e.command, r.scripts.renew.sha) {
			return e.took, nil
		}
	}
	return 0, fmt.Errorf("the slow log has no renewal script among %d entries", len(entries))
}

// logFrom sets what counts as slow, in us.
func logFrom(server *redistest.Server, us int) error {
	if err := server.Do("CONFIG", "SET", "slowlog-log-slower-than",
		strconv.Itoa(us)).Error(); err != nil {
		return fmt.Errorf("CONFIG SET slowlog-log-slower-than: %w", err)
	}
	return nil
}
