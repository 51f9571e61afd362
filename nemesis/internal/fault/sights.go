package fault

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// sightEvery is how often a server is asked for its leases.
const sightEvery = 10 * time.Millisecond

// leases returns the keys and values of all leases.
//
//nolint:dupword // of Lua
const leases = `local all = {}
for _, key in ipairs(redis.call('KEYS', 'lockbeat:{*}')) do
	local value = redis.call('GET', key)
	if value then
		all[#all + 1], all[#all + 2] = key, value
	end
end
return all`

// sights notes when each lease was last seen on a server.
type sights struct {
	end     context.CancelFunc
	running sync.WaitGroup
	err     error                       // to be read when it runs no more
	last    map[[2]string]history.Sight // by name and process; the same
}

// watch begins to look. The caller must stop it.
func watch(server *redistest.Server) *sights {
	ctx, end := context.WithCancel(context.Background())
	s := &sights{end: end, last: make(map[[2]string]history.Sight)}
	s.running.Go(func() {
		for s.err == nil && ctx.Err() == nil {
			s.err = s.look(server)
			select {
			case <-ctx.Done():
			case <-time.After(sightEvery):
			}
		}
	})
	return s
}

func (s *sights) look(server *redistest.Server) error {
	now := history.Now()
	all, err := server.Do("EVAL", leases, "0").AsStrSlice()
	if err != nil {
		return fmt.Errorf("fault: the leases on %s: %w", server.Addr(), err)
	}
	for pair := range slices.Chunk(all, 2) {
		lines := strings.Split(pair[1], "\n")
		if lines[0] == "turn" {
			continue // a release has given it to a waiter, who has not claimed it yet
		}
		// The holder's node is behind the owner token, the fencing token and the time.
		if len(lines) < 4 {
			return fmt.Errorf("fault: %s is no lease: %q", pair[0], pair[1])
		}
		name := strings.TrimSuffix(strings.TrimPrefix(pair[0], "lockbeat:{"), "}")
		s.last[[2]string{name, lines[3]}] = history.Sight{At: now, Name: name, Process: lines[3]}
	}
	return nil
}

// stop returns what was seen.
func (s *sights) stop() ([]history.Sight, error) {
	s.end()
	s.running.Wait()
	return slices.SortedFunc(maps.Values(s.last), func(a, b history.Sight) int {
		return cmp.Compare(a.At, b.At)
	}), s.err
}
