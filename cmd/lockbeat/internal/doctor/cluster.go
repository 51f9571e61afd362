package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/connect"
)

// slotsOfACluster is how many slots each cluster has.
const slotsOfACluster = 16384

// cluster looks whether all slots are served.
func cluster(ctx context.Context, s server) finding {
	const check = "cluster"
	text, err := s.client.Do(ctx, s.client.B().ClusterInfo().Build()).ToString()
	if err != nil {
		return missed(check, "+cluster|info", err)
	}
	info := fields(text)
	f := finding{Check: check, Found: fmt.Sprintf("state %s, %d of %d slots served by %s nodes",
		info["cluster_state"], number(info["cluster_slots_ok"]), slotsOfACluster,
		info["cluster_size"])}
	switch {
	case info["cluster_state"] != "ok":
		f.Status, f.Change = failure, "see `redis-cli --cluster check`: the cluster refuses locks"
	case number(info["cluster_slots_ok"]) < slotsOfACluster:
		f.Status, f.Change = failure, "see `redis-cli --cluster check`: locks of the other slots "+
			"are refused"
	case number(info["cluster_slots_pfail"]) > 0:
		f.Status, f.Change = warning, "a node does not answer the others: see "+
			"`redis-cli --cluster check`"
	}
	return f
}

// sentinels asks each Sentinel whether enough of them could agree on a
// fail-over, which server is the primary, and whether its replicas are in step.
func sentinels(ctx context.Context, d *connect.Deployment, r *report) {
	var named []string
	for _, addr := range d.Addresses() {
		f, primary := sentinel(ctx, d, addr)
		f.Server = addr
		r.add(f)
		if primary != "" && !slices.Contains(named, primary) {
			named = append(named, primary)
		}
	}
	if len(named) > 1 {
		r.add(finding{
			Check: "primary", Status: failure,
			Found:  "the Sentinels name different ones: " + strings.Join(named, ", "),
			Change: "see that all Sentinels reach each other; a fail-over may be under way",
		})
	}
}

func sentinel(ctx context.Context, d *connect.Deployment, addr string) (f finding, primary string) {
	const check = "sentinel"
	client, err := d.Sentinel(ctx, addr)
	if err != nil {
		return finding{
			Check: check, Status: warning, Found: strings.TrimPrefix(err.Error(), "lockbeat: "),
			Change: "start it, or take it out of LOCKBEAT_URL",
		}, ""
	}
	defer client.Close()
	ask := func(args ...string) rueidis.RedisResult {
		return client.Do(ctx, client.B().Arbitrary("SENTINEL").Args(args...).Build())
	}
	if parts, err := ask("get-master-addr-by-name", d.Master).AsStrSlice(); err == nil {
		primary = strings.Join(parts, ":")
	}
	text, err := ask("ckquorum", d.Master).ToString()
	if answer, isAnswer := rueidis.IsRedisErr(err); isAnswer && !isDenied(answer.Error()) {
		return finding{
			Check: check, Status: failure, Found: answer.Error(),
			Change: "start the Sentinels that are away: there is no fail-over without a quorum",
		}, primary
	} else if err != nil {
		return missed(check, "+sentinel|ckquorum +sentinel|replicas on the Sentinels", err), primary
	}
	f = finding{Check: check, Found: text}
	replicas, err := ask("replicas", d.Master).ToArray()
	if err != nil {
		return missed(check, "+sentinel|replicas on the Sentinels", err), primary
	}
	for _, replica := range replicas {
		known, _ := replica.AsStrMap()
		if link := known["master-link-status"]; link != "ok" || known["flags"] != "slave" {
			f.Status = warning
			f.Found += fmt.Sprintf("; the replica %s has flags %s, master-link-status %s",
				known["name"], known["flags"], link)
			f.Change = "a fail-over to it is not possible, or loses locks: see its log"
		}
	}
	return f, primary
}
