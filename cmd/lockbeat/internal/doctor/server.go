package doctor

import (
	"context"
	"strings"

	"github.com/redis/rueidis"
)

// server is one that may hold locks.
type server struct {
	addr   string // "" if it is the only one
	client rueidis.Client
	hello  map[string]string
	told   map[string]string // by INFO
}

// servers finds those that hold locks: the one, or the primaries of a cluster.
func servers(ctx context.Context, client rueidis.Client, r *report) []server {
	if client.Mode() != rueidis.ClientModeCluster {
		return greet(ctx, r, []server{{client: client}})
	}
	var all []server
	for addr, node := range client.Nodes() {
		all = append(all, server{addr: addr, client: node})
	}
	return greet(ctx, r, all)
}

// greet asks each server what it is. HELLO needs no right.
func greet(ctx context.Context, r *report, all []server) (primaries []server) {
	for _, s := range all {
		reply, err := s.client.Do(ctx, s.client.B().Arbitrary("HELLO").Build()).ToMap()
		if err != nil {
			f := missed("version", "", err)
			f.Server, f.Status = s.addr, failure
			r.add(f)
			continue
		}
		s.hello = make(map[string]string)
		for key, value := range reply {
			s.hello[key], _ = value.ToString()
		}
		switch {
		case s.hello["mode"] == "sentinel":
			r.add(finding{
				Check: "role", Status: failure,
				Found: "it is a Sentinel, which holds no locks",
				Change: "let LOCKBEAT_SENTINEL_MASTER, or ?sentinel_master= of the URL, name the " +
					"primary",
			})
			continue
		case s.hello["role"] != "master":
			f := s.replica(ctx)
			f.Server = s.addr
			r.add(f)
			if s.addr != "" {
				continue // a replica of a cluster's
			}
		}
		primaries = append(primaries, s)
	}
	return primaries
}

// info is what INFO tells. It is asked for once: a round trip may take long.
func (s *server) info(ctx context.Context) (map[string]string, error) {
	if s.told == nil {
		text, err := s.client.Do(ctx, s.client.B().Info().Build()).ToString()
		if err != nil {
			return nil, err
		}
		s.told = fields(text)
	}
	return s.told, nil
}

// fields reads lines "name:value". In RESP3 the text of CLUSTER INFO begins
// with its kind.
func fields(text string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(strings.TrimPrefix(text, "txt:")) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			all[name] = value
		}
	}
	return all
}

// setting asks for one of the server's settings; "" if it may not be seen.
func (s *server) setting(ctx context.Context, name string) string {
	all, err := s.client.Do(ctx, s.client.B().ConfigGet().Parameter(name).Build()).AsStrMap()
	if err != nil {
		return ""
	}
	return all[name]
}
