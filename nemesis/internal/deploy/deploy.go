// Package deploy starts private Redis deployments and puts a proxy on every link to them.
package deploy

import (
	"errors"
	"fmt"
	"sync"

	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// The kinds of deployment.
const (
	Standalone = "standalone"
	Sentinel   = "sentinel"
	Cluster    = "cluster"
	Quorum3    = "quorum3"
	Quorum5    = "quorum5"
)

// Kinds are all of them.
var Kinds = []string{Standalone, Sentinel, Cluster, Quorum3, Quorum5}

const (
	// User is the one that workers log in as, so that faults can take
	// its rights away and keep those of the tests.
	User = "locks"
	// Password is its password.
	Password = "under-test"
)

// serverArgs are those of every server: what it has confirmed is written to its file, so that a
// restart alone voids nothing. It is not flushed to the disk, for which all would wait while that
// is busy: the operating system outlives a server that is killed.
var serverArgs = []string{
	"--appendonly", "yes", "--appendfsync", "no", "--enable-debug-command", "local",
	// so that it answers, to refuse, while it loads
	"--loading-process-events-interval-bytes", "1024",
	"--user", User, "on", ">" + Password, "resetchannels", "~lockbeat:{*", "&lockbeat:{*", "+@all",
}

// Deployment is one of Redis.
type Deployment struct {
	Kind string
	// Servers hold locks.
	Servers []*redistest.Server
	// Sentinel and Cluster are nil in other kinds.
	Sentinel *redistest.Sentinel
	Cluster  *redistest.Cluster
	// Quorum reports whether the servers know nothing of each other, and a majority decides.
	Quorum bool
}

// Open starts a deployment. The caller must Close it.
func Open(kind string) (*Deployment, error) {
	d := &Deployment{Kind: kind}
	var err error
	switch kind {
	case Standalone:
		err = d.open(1)
	case Quorum3:
		d.Quorum = true
		err = d.open(3)
	case Quorum5:
		d.Quorum = true
		err = d.open(5)
	case Sentinel:
		if d.Sentinel, err = redistest.OpenSentinel(serverArgs...); err == nil {
			d.Servers, err = d.Sentinel.Data, d.Sentinel.Patience(false)
		}
	case Cluster:
		args := append([]string{
			"--cluster-node-timeout", "1000", "--cluster-require-full-coverage",
			"no",
		}, serverArgs...)
		if d.Cluster, err = redistest.OpenCluster(3, 0, args...); err == nil {
			d.Servers = d.Cluster.Masters
		}
	default:
		return nil, fmt.Errorf("deploy: there is no deployment %q; take one of %v", kind, Kinds)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("deploy: %s: %w", kind, err), d.Close())
	}
	return d, nil
}

// open starts servers that know nothing of each other.
func (d *Deployment) open(n int) error {
	servers, errs := make([]*redistest.Server, n), make([]error, n)
	var starting sync.WaitGroup
	for i := range n {
		starting.Go(func() { servers[i], errs[i] = redistest.Open(serverArgs...) })
	}
	starting.Wait()
	for _, s := range servers {
		if s != nil {
			d.Servers = append(d.Servers, s)
		}
	}
	return errors.Join(errs...)
}

// All returns the servers, and the Sentinels.
func (d *Deployment) All() []*redistest.Server {
	if d.Sentinel != nil {
		return d.Sentinel.Nodes()
	}
	return d.Servers
}

// AwaitWhole returns once the servers agree on who serves what.
func (d *Deployment) AwaitWhole() error {
	switch {
	case d.Sentinel != nil:
		return d.awaitOnePrimary()
	case d.Cluster != nil:
		return d.Cluster.AwaitWhole()
	default:
		return nil
	}
}

// Close kills the servers.
func (d *Deployment) Close() error {
	var err error
	for _, s := range d.All() {
		err = errors.Join(err, s.Close())
	}
	return err
}
