package doctor

import (
	"context"
	"fmt"
	"strconv"
)

// fullAt is how much of its memory a server may use before that is worth a
// word, in percent.
const fullAt = 90

// memory looks whether the server may throw locks away, and when it will refuse
// them.
func (s *server) memory(ctx context.Context) finding {
	const check = "memory"
	info, err := s.info(ctx)
	if err != nil {
		return missed(check, "+info", err)
	}
	policy := info["maxmemory_policy"]
	most, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
	used, _ := strconv.ParseInt(info["used_memory"], 10, 64)
	found := "maxmemory-policy " + policy + ", " + megabytes(used) + " used, no limit"
	if most > 0 {
		found = fmt.Sprintf("maxmemory-policy %s, %s of %s used (%d %%)", policy, megabytes(used),
			megabytes(most), used*100/most)
	}
	if n := info["evicted_keys"]; n != "0" && n != "" {
		found += ", " + n + " keys evicted since it started"
	}
	apart, _ := strconv.ParseInt(info["mem_not_counted_for_evict"], 10, 64) // buffers
	f := finding{Check: check, Found: found}
	switch {
	case policy != "noeviction" && most > 0:
		f.Status = failure
		f.Change = "set maxmemory-policy noeviction: when this server is full it throws locks " +
			"away, and two owners may have one"
	case policy != "noeviction":
		f.Status = warning
		f.Change = "set maxmemory-policy noeviction, lest a limit set later throw locks away"
	case most > 0 && used-apart >= most:
		f.Status = failure
		f.Change = "raise maxmemory, or see what fills it: a full server grants no lock, though " +
			"those held are renewed"
	case most > 0 && used*100/most >= fullAt:
		f.Status = warning
		f.Change = "raise maxmemory: a full server grants no lock"
	}
	return f
}

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/(1<<20)) }
