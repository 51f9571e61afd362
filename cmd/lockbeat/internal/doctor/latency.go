package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/out"
)

const (
	// pings is how often a server is asked for its latency, and pinging for how
	// long at most: one that is far away or slow has shown it by then.
	pings   = 100
	pinging = 3 * time.Second
	// slow is a latency at which a lease of the default TTL, 15 s, has few
	// attempts left.
	slow = 500 * time.Millisecond
)

// latency measures the time of a round trip. A refusal takes as long as an
// answer, so it needs no right.
func (s *server) latency(ctx context.Context) finding {
	return latency(func() error {
		return s.client.Do(ctx, s.client.B().Ping().Build()).NonRedisError()
	})
}

func latency(ping func() error) finding {
	var times []time.Duration
	for begun := time.Now(); len(times) < pings && time.Since(begun) < pinging; {
		sent := time.Now()
		if err := ping(); err != nil {
			return missed("latency", "", err)
		}
		times = append(times, time.Since(sent))
	}
	slices.Sort(times)
	p50, p99 := times[len(times)/2], times[len(times)*99/100]
	f := finding{Check: "latency", Found: fmt.Sprintf("p50 %s, p99 %s of %d PINGs",
		exact(p50), exact(p99), len(times))}
	if p99 > slow {
		f.Status = warning
		f.Change = "let the TTL be 60 s or more, or bring the server nearer"
	}
	return f
}

// exact is a short time in milliseconds.
func exact(d time.Duration) string { return fmt.Sprintf("%.2fms", float64(d)/1e6) }

// version looks whether the server has what our scripts call.
func (s *server) version(context.Context) finding {
	name, version := s.hello["server"], s.hello["version"]
	f := finding{Check: "version", Found: name + " " + version}
	var major, minor int
	_, err := fmt.Sscanf(version, "%d.%d", &major, &minor)
	switch {
	case err != nil:
		f.Status = unknown
	case strings.Contains(name, "redis") && (major < 6 || major == 6 && minor < 2):
		f.Status, f.Change = failure, "run Redis 6.2 or later, or Valkey"
	}
	return f
}

// clock compares the server's clock with ours. Nothing depends on that: it is
// for those who read the times that `lockbeat show` prints.
func (s *server) clock(ctx context.Context) finding {
	begun := time.Now()
	parts, err := s.client.Do(ctx, s.client.B().Time().Build()).AsIntSlice()
	took := time.Since(begun)
	if err != nil || len(parts) != 2 {
		return missed("clock", "+time", err)
	}
	ahead := time.Unix(parts[0], parts[1]*1000).Sub(begun.Add(took / 2))
	if ahead.Abs() <= took {
		return finding{Check: "clock", Found: "as ours"}
	}
	where := "ahead of"
	if ahead < 0 {
		where = "behind"
	}
	return finding{Check: "clock", Found: out.Duration(ahead.Abs()) + " " + where + " ours; " +
		"no lock depends on that"}
}
