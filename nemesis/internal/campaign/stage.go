package campaign

import (
	"fmt"

	"github.com/lockbeat/lockbeat/nemesis/internal/crew"
	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
)

// keyPrefix begins the names that are contended for. Every second one is a limit, of 2 or 3.
const keyPrefix = "lock-"

// stage is all that a campaign runs on.
type stage struct {
	deployment *deploy.Deployment
	links      []deploy.Links
	crew       *crew.Crew
	keys       []string
	limits     map[string]int // of those that are limits
	broken     []string       // those of which leases are broken and replaced
}

// lockKeys are the keys of the locks on a server.
func (s *stage) lockKeys() []string {
	keys := make([]string, len(s.keys))
	for i, name := range s.keys {
		keys[i] = keyOf(name)
	}
	return keys
}

// keyOf is the key of a lock.
func keyOf(name string) string { return "lockbeat:{" + name + "}" }

// open starts everything. The caller must close it, after an error too.
func (s *stage) open(o Options) error {
	var err error
	if s.deployment, err = deploy.Open(o.Deployment); err != nil {
		return err
	}
	s.limits = make(map[string]int)
	for i := range o.Keys {
		name := fmt.Sprintf("%s%d", keyPrefix, i+1)
		if i%2 == 1 && !s.deployment.Quorum { // quorums have no limits
			n := 2 + i/2%2
			name = fmt.Sprintf("%s-at-most-%d", name, n)
			s.limits[name] = n
		}
		s.keys = append(s.keys, name)
		if i%3 != 2 && o.BreakEvery != 0 {
			s.broken = append(s.broken, name)
		}
	}
	var specs []worker.Spec
	for i := range o.Workers {
		links, err := s.deployment.Link()
		if err != nil {
			return err
		}
		s.links = append(s.links, links)
		target, err := s.deployment.Spec(links)
		if err != nil {
			return err
		}
		specs = append(specs, worker.Spec{
			Seed:   o.Seed<<8 + uint64(i), //nolint:gosec // i is a small number
			Deploy: target, Keys: s.keys, Limits: s.limits, Callers: o.Callers,
			Broken: s.broken, BreakEvery: o.BreakEvery,
			Long: o.Long, TTL: o.TTL, Flaw: o.Flaw,
		})
	}
	s.crew, err = crew.Start(specs)
	return err
}

// close ends what is left.
func (s *stage) close() error {
	if s.crew != nil {
		_ = s.crew.End(0) // what there is to say about it was said when it was told to end
	}
	for _, l := range s.links {
		l.Close()
	}
	if s.deployment != nil {
		return s.deployment.Close()
	}
	return nil
}
