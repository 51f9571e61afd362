package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/embedded"
	"github.com/lockbeat/lockbeat/testutil/proxy"
)

// inside is how many servers run inside the program.
const inside = 5

// servers are Redis servers, each behind a link that can be cut. All keys
// of a run carry its name, so that servers of yours are not disturbed.
type servers struct {
	prefix string
	where  string
	all    []*server
}

type server struct {
	option rueidis.ClientOption
	direct rueidis.Client // has no part in the story: it looks on, and cleans up
	link   *proxy.Proxy
	ends   []func() // what to close, the last one first
}

// openServers connects to the servers at addrs, or starts five inside
// the program if there are none.
func openServers(addrs []string) (s *servers, err error) {
	if len(addrs) > 0 && (len(addrs) < 3 || len(addrs)%2 == 0) {
		return nil, fmt.Errorf("-redis names %d servers: a quorum needs an odd number, 3 or more",
			len(addrs))
	}
	s = &servers{
		prefix: "migrate-" + strings.ToLower(rand.Text()[:10]) + ":",
		where:  "at " + strings.Join(addrs, ", "),
	}
	if len(addrs) == 0 {
		addrs, s.where = make([]string, inside), "inside the program"
	}
	for _, addr := range addrs {
		one, err := openServer(addr)
		s.all = append(s.all, one)
		if err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func openServer(addr string) (s *server, err error) {
	s = &server{option: rueidis.ClientOption{ForceSingleClient: true, DisableCache: true}}
	if addr == "" {
		redis, err := embedded.Start()
		if err != nil {
			return s, err
		}
		s.ends = append(s.ends, redis.Close)
		addr, s.option = redis.Addr(), redis.ClientOption()
	}
	s.option.InitAddress = []string{addr}
	if s.direct, err = rueidis.NewClient(s.option); err != nil {
		return s, fmt.Errorf("connect to Redis at %s: %w", addr, err)
	}
	s.ends = append(s.ends, s.direct.Close)
	if s.link, err = proxy.New(addr); err != nil {
		return s, err
	}
	s.ends = append(s.ends, s.link.Close)
	s.option.InitAddress = []string{s.link.Addr()}
	return s, nil
}

// nodes are stores on the servers, by the links.
func (s *servers) nodes() (nodes []renewer.Store, end func(), err error) {
	var ends []func()
	end = func() {
		for _, f := range ends {
			f()
		}
	}
	for _, one := range s.all {
		store, f, err := connect(one.option, s.prefix)
		if err != nil {
			end()
			return nil, nil, err
		}
		nodes, ends = append(nodes, store), append(ends, f)
	}
	return nodes, end, nil
}

// stop makes n servers be gone: connections break, and new ones are refused.
func (s *servers) stop(n int) {
	for _, one := range s.all[:n] {
		one.link.Refuse(true)
		one.link.Reset()
	}
}

// resume ends every stop.
func (s *servers) resume() {
	for _, one := range s.all {
		one.link.Refuse(false)
	}
}

// held counts the locks that somebody has, on all servers.
func (s *servers) held(ctx context.Context) (n int, err error) {
	for _, one := range s.all {
		keys, err := one.keys(ctx, s.prefix+"{*}")
		if err != nil {
			return 0, err
		}
		n += len(keys)
	}
	return n, nil
}

// clean deletes what the run has left: the counters of the fencing tokens.
func (s *servers) clean(ctx context.Context) error {
	var errs []error
	for _, one := range s.all {
		keys, err := one.keys(ctx, s.prefix+"*")
		if err == nil && len(keys) > 0 {
			err = one.direct.Do(ctx, one.direct.B().Del().Key(keys...).Build()).Error()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// keys returns those that match a pattern.
func (s *server) keys(ctx context.Context, pattern string) (keys []string, err error) {
	for cursor := uint64(0); ; {
		page, err := s.direct.Do(ctx,
			s.direct.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", pattern, err)
		}
		keys = append(keys, page.Elements...)
		if cursor = page.Cursor; cursor == 0 {
			return keys, nil
		}
	}
}

func (s *servers) close() {
	for _, one := range s.all {
		for _, end := range slices.Backward(one.ends) {
			end()
		}
	}
}
