package redistest

import (
	"errors"
	"strconv"
	"strings"
)

// form makes a cluster of nodes that do not know each other.
func (c *Cluster) form() error {
	nodes := c.Nodes()
	for i, n := range nodes {
		id, err := n.Do("CLUSTER", "MYID").ToString()
		if err != nil {
			return err
		}
		c.ids[n] = id
		// Distinct epochs, lest the nodes find that out by themselves and take
		// their time.
		if err := n.do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < len(c.Masters) {
			args := []string{"CLUSTER", "ADDSLOTS"} // ADDSLOTSRANGE is Redis 7's
			for slot := i * Slots / len(c.Masters); slot < (i+1)*Slots/len(c.Masters); slot++ {
				args = append(args, strconv.Itoa(slot))
			}
			if err := n.do(args...); err != nil {
				return err
			}
		}
	}
	for i, n := range nodes {
		for _, other := range nodes[:i] { // all of them, as gossip takes seconds
			err := n.do("CLUSTER", "MEET", "127.0.0.1", strconv.Itoa(other.Port()))
			if err != nil {
				return err
			}
		}
	}
	if err := c.awaitKnown(); err != nil {
		return err
	}
	for i, r := range c.Replicas {
		if err := r.do("CLUSTER", "REPLICATE",
			c.ids[c.Masters[i/(len(c.Replicas)/len(c.Masters))]]); err != nil {
			return err
		}
	}
	return c.AwaitWhole()
}

// awaitKnown returns once every node knows all others by their names.
func (c *Cluster) awaitKnown() error {
	for _, n := range c.Nodes() {
		if err := await("each node knows all others", func() (bool, error) {
			known, err := n.Do("CLUSTER", "NODES").ToString()
			for _, id := range c.ids {
				if !strings.Contains(known, id) {
					return false, err
				}
			}
			return !strings.Contains(known, "handshake"), err
		}); err != nil {
			return err
		}
	}
	return nil
}

// AwaitWhole returns once every node that runs finds all slots
// served, and every replica that runs has its primary's data.
func (c *Cluster) AwaitWhole() error {
	for _, n := range c.Nodes() {
		if !n.running() {
			continue
		}
		if err := await("all slots are served", func() (bool, error) {
			info, err := n.info("CLUSTER", "INFO")
			ok := info["cluster_state"] == "ok" && info["cluster_slots_ok"] == strconv.Itoa(Slots)
			return ok, err
		}); err != nil {
			return err
		}
		if err := await("the replica is in step", func() (bool, error) {
			return n.inStep()
		}); err != nil {
			return err
		}
	}
	// Nodes may still differ about who is a replica of whom.
	return await("all nodes see all replicas", func() (bool, error) {
		for _, n := range c.Nodes() {
			if !n.running() {
				continue
			}
			if seen, err := c.seenBy(n); err != nil || seen != len(c.Nodes()) {
				return false, err
			}
		}
		return true, nil
	})
}

// inStep reports whether a server is a primary, or a replica that is up to
// date.
func (s *Server) inStep() (bool, error) {
	info, err := s.info("INFO", "replication")
	return info["role"] == "master" || info["master_link_status"] == "up" &&
		info["master_sync_in_progress"] == "0", err
}

// seenBy counts the nodes that serve slots, as masters or replicas, in the eyes
// of n.
func (c *Cluster) seenBy(n *Server) (int, error) {
	ranges, err := n.slots()
	seen := make(map[string]struct{})
	for _, r := range ranges {
		for _, id := range r.ids {
			seen[id] = struct{}{}
		}
	}
	return len(seen), err
}

// slotRange is an element of CLUSTER SLOTS: master first.
type slotRange struct {
	first, last int64
	ids         []string
}

func (s *Server) slots() ([]slotRange, error) {
	rows, err := s.Do("CLUSTER", "SLOTS").ToArray()
	if err != nil {
		return nil, err
	}
	ranges := make([]slotRange, 0, len(rows))
	for _, row := range rows {
		fields, err := row.ToArray()
		if err != nil || len(fields) < 3 {
			return nil, errors.Join(errSlots, err)
		}
		var r slotRange
		r.first, _ = fields[0].AsInt64()
		r.last, _ = fields[1].AsInt64()
		for _, f := range fields[2:] {
			node, err := f.ToArray()
			if err != nil || len(node) < 3 {
				return nil, errors.Join(errSlots, err)
			}
			id, _ := node[2].ToString()
			r.ids = append(r.ids, id)
		}
		ranges = append(ranges, r)
	}
	return ranges, nil
}

var errSlots = errors.New("redistest: CLUSTER SLOTS has another form than expected")
