package campaign

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lockbeat/lockbeat/nemesis/internal/crew"
	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/nemesis/internal/resource"
	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
)

// keyPrefix begins the names of the locks that are contended for.
const keyPrefix = "lock-"

// stage is all that a campaign runs on.
type stage struct {
	dir        string
	deployment *deploy.Deployment
	resource   *resource.Server
	links      []deploy.Links
	crew       *crew.Crew
	keys       []string
	idle       int // leases held besides
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
	if s.dir, err = os.MkdirTemp("", "lockbeat-nemesis-"); err != nil {
		return err
	}
	if s.deployment, err = deploy.Open(o.Deployment); err != nil {
		return err
	}
	socket := filepath.Join(s.dir, "resource")
	if s.resource, err = resource.Listen(socket); err != nil {
		return err
	}
	for i := range o.Keys {
		s.keys = append(s.keys, fmt.Sprintf("%s%d", keyPrefix, i+1))
	}
	var specs []worker.Spec
	for i := range o.Workers {
		s.idle += o.Idle / o.Workers
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
			Deploy: target, Resource: socket, Keys: s.keys,
			Slot: i, Callers: o.Callers, Long: o.Long, Leave: o.Leave, Think: o.Think,
			TTL: o.TTL, Flaw: o.Flaw, Idle: o.Idle / o.Workers,
		})
	}
	s.crew, err = crew.Start(specs)
	return err
}

// close ends what is left.
func (s *stage) close() error {
	var err error
	if s.crew != nil {
		_ = s.crew.End(0) // what there is to say about it was said when it was told to end
	}
	for _, l := range s.links {
		l.Close()
	}
	if s.resource != nil {
		s.resource.Close()
	}
	if s.deployment != nil {
		err = s.deployment.Close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
