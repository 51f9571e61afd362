package redistest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
)

// Slots is how many hash slots a cluster has.
const Slots = 16384

// Cluster is a private Redis Cluster. Its methods may be called
// concurrently; those that change the cluster, one at a time.
type Cluster struct {
	// Masters serve a contiguous share of the slots each, in order, until that
	// is changed.
	Masters []*Server
	// Replicas has those of the first master first.
	Replicas []*Server

	ids map[*Server]string
}

// OpenCluster starts a cluster of so many masters, each with so many
// replicas, and returns once every node finds it complete, after 2 s or so.
// args go to each node, such as "--cluster-node-timeout", "1000". The caller
// must Close it. It returns ErrMissing where there is no redis-server.
func OpenCluster(masters, replicas int, args ...string) (*Cluster, error) {
	recipes := make([]recipe, masters*(1+replicas))
	for i := range recipes {
		recipes[i] = plain(append([]string{
			"--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1",
			"--cluster-migration-barrier", "1000", // no replica ever goes to another primary
			// A replica is shown to clients once something was
			// replicated, at the latest the first of these.
			"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
		}, args...))
	}
	servers, err := openAll(recipes)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Masters: servers[:masters:masters], Replicas: servers[masters:],
		ids: make(map[*Server]string),
	}
	if err := c.form(); err != nil {
		return nil, closeAll(servers, err)
	}
	return c, nil
}

// Nodes returns all servers, masters first.
func (c *Cluster) Nodes() []*Server { return slices.Concat(c.Masters, c.Replicas) }

// ClientOption returns options for a client that knows one address
// and learns the rest from the cluster.
func (c *Cluster) ClientOption() rueidis.ClientOption {
	option := c.Masters[0].ClientOption()
	option.ForceSingleClient = false
	return option
}

// Serving returns the server that now serves a slot, in the eyes of the first
// that runs.
func (c *Cluster) Serving(slot int) (*Server, error) {
	for _, n := range c.Nodes() {
		if n.running() {
			return c.owner(n, slot)
		}
	}
	return nil, fmt.Errorf("redistest: no node runs that could tell who serves slot %d", slot)
}

// owner is the server that serves a slot in the eyes of n.
func (c *Cluster) owner(n *Server, slot int) (*Server, error) {
	ranges, err := n.slots()
	if err != nil {
		return nil, err
	}
	for _, r := range ranges {
		if int(r.first) > slot || slot > int(r.last) {
			continue
		}
		for s, id := range c.ids {
			if id == r.ids[0] {
				return s, nil
			}
		}
	}
	return nil, fmt.Errorf("redistest: no node serves slot %d", slot)
}

// Failover makes a replica the primary of its shard and returns once it
// is. With force its primary, which may be frozen or dead, is not asked.
func (c *Cluster) Failover(replica *Server, force bool) error {
	args := []string{"CLUSTER", "FAILOVER"}
	if force {
		args = append(args, "FORCE")
	}
	if err := replica.do(args...); err != nil {
		return err
	}
	return await("the replica is the primary", func() (bool, error) {
		info, err := replica.info("INFO", "replication")
		return info["role"] == "master", err
	})
}

// Close kills all nodes and removes their directories. Clients should
// be closed before: see Server.NewClient.
func (c *Cluster) Close() error {
	var err error
	for _, n := range c.Nodes() {
		err = errors.Join(err, n.Close())
	}
	return err
}
