package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// replicas looks whether a primary that has lost its replicas goes on: then two
// servers may grant one lock after a fail-over.
func (s *server) replicas(ctx context.Context) finding {
	const check = "replicas"
	info, err := s.info(ctx)
	if err != nil {
		return missed(check, "+info", err)
	}
	n := number(info["connected_slaves"])
	f := finding{Check: check, Found: fmt.Sprintf("%d connected", n)}
	good, bounded := info["min_slaves_good_slaves"] // there only if min-replicas-to-write is set
	late := 0
	for name, value := range info {
		if strings.HasPrefix(name, "slave") && strings.Contains(value, "state=") &&
			!strings.Contains(value, "state=online") {
			late++
		}
	}
	switch {
	case bounded && (good == "0" ||
		number(good) < number(s.setting(ctx, "min-replicas-to-write"))):
		f.Status = failure
		f.Found += ", " + good + " in time, too few: the server refuses locks (-NOREPLICAS)"
		f.Change = "bring back the replicas, or lower min-replicas-to-write meanwhile"
	case late > 0:
		f.Status, f.Found = warning, f.Found+fmt.Sprintf(", %d of them not in step", late)
		f.Change = "a fail-over to it loses locks: wait until it has caught up, and see its log"
	case n == 0 && s.addr != "":
		f.Status, f.Change = warning, "give each primary of the cluster a replica: without it its "+
			"locks are away while it is"
	case n == 0:
		f.Found = "none: nothing takes over when this server is away"
	case !bounded:
		f.Status = warning
		f.Found += ", min-replicas-to-write 0: cut off from them, it goes on to grant locks that " +
			"the next primary grants too"
		f.Change = "set min-replicas-to-write 1, and min-replicas-max-lag to half of the TTL " +
			"or less"
	default:
		f.Found += ", min-replicas-to-write is set, " + good + " in time"
	}
	return f
}

// replica looks whether a replica is in step with its primary. It is a failure
// to have no other server: a replica holds no locks.
func (s *server) replica(ctx context.Context) finding {
	const check = "role"
	f := finding{Check: check, Found: "a replica"}
	if s.addr == "" {
		f.Status, f.Found = failure, "it is a replica, which can't hold locks"
		f.Change = "let LOCKBEAT_URL name the primary"
	}
	info, err := s.info(ctx)
	if err != nil {
		if s.addr != "" {
			return missed(check, "+info", err)
		}
		return f
	}
	link := info["master_link_status"]
	f.Found += ", of " + info["master_host"] + ":" + info["master_port"] + ", master_link_status " +
		link
	if link != "up" {
		f.Status = max(f.Status, warning)
		if f.Change == "" {
			f.Change = "a fail-over to it loses locks: see its log, and that it reaches the primary"
		}
	}
	return f
}

// number reads a number; 0 if it is none.
func number(text string) int {
	n, _ := strconv.Atoi(text)
	return n
}
