package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

// unnamed is what a node of a cluster is called that is to be known by its host name and has none.
const unnamed = "?"

// nodesTimeout leaves time for the other questions of New where a node does not answer.
const nodesTimeout = 300 * time.Millisecond

// nodesHaveNames returns an error if a primary of the cluster has no address. The client leaves
// such a node out, and each request to it would wait until its deadline. What can't be asked now,
// later requests show.
func nodesHaveNames(ctx context.Context, client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	rows, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil
	}
	for _, row := range rows {
		fields, err := row.ToArray()
		if err != nil || len(fields) < 3 {
			continue
		}
		node, err := fields[2].ToArray()
		if err != nil || len(node) == 0 {
			continue
		}
		if host, err := node[0].ToString(); err == nil && host == unnamed {
			return fmt.Errorf("redisstore: new: %w: a node of the cluster calls itself %q, so "+
				"that no client finds it: set cluster-announce-hostname on each node, or "+
				"cluster-preferred-endpoint-type to ip", renewer.ErrRejected, unnamed)
		}
	}
	return nil
}
