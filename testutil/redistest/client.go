package redistest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// doTimeout bounds Do, so that a test on a frozen server fails rather than
// hangs.
const doTimeout = 10 * time.Second

// ClientOption returns options for a client of this server alone: no
// client-side caching, no search for a cluster.
func (s *Server) ClientOption() rueidis.ClientOption {
	return rueidis.ClientOption{
		InitAddress:       []string{s.Addr()},
		Password:          s.password(),
		DisableCache:      true,
		ForceSingleClient: true,
	}
}

// NewClient connects a client of its own, with ClientOption changed by edit.
// The caller must close it; closing waits up to 10 s for a server that is
// frozen, so Cont first.
func (s *Server) NewClient(edit ...func(*rueidis.ClientOption)) (rueidis.Client, error) {
	return connect(s.ClientOption(), edit)
}

func connect(
	option rueidis.ClientOption, edit []func(*rueidis.ClientOption),
) (rueidis.Client, error) {
	for _, f := range edit {
		f(&option)
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("redistest: connect to %v: %w", option.InitAddress, err)
	}
	return client, nil
}

// Do sends one command, such as Do("PTTL", "key"), on a connection of the
// server's own, so that it disturbs no client under test and is not affected by
// a proxy before the server. It gives up after 10 s. It panics while the server
// is killed.
func (s *Server) Do(args ...string) rueidis.RedisResult {
	s.mu.Lock()
	admin := s.admin
	s.mu.Unlock()
	if admin == nil {
		panic("redistest: Do on a killed server; Restart it first")
	}
	ctx, cancel := context.WithTimeout(context.Background(), doTimeout)
	defer cancel()
	return admin.Do(ctx, admin.B().Arbitrary(args...).Build())
}

// Knows reports whether the server has a command, such as "SSUBSCRIBE", which
// came with Redis 7. It panics while the server is killed.
func (s *Server) Knows(command string) bool {
	info, err := s.Do("COMMAND", "INFO", command).ToArray()
	return err == nil && len(info) == 1 && !info[0].IsNil()
}

// DBSize returns how many keys the server has, expired ones that it has not
// removed yet included.
func (s *Server) DBSize() (int64, error) { return s.Do("DBSIZE").AsInt64() }

// Calls returns how often command, such as "evalsha", has run since
// the server's start or the last CONFIG RESETSTAT.
func (s *Server) Calls(command string) (int64, error) {
	stats, err := s.Do("INFO", "commandstats").ToString()
	if err != nil {
		return 0, err
	}
	prefix := "cmdstat_" + strings.ToLower(command) + ":calls="
	for line := range strings.Lines(stats) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			count, _, _ := strings.Cut(rest, ",")
			return strconv.ParseInt(count, 10, 64)
		}
	}
	return 0, nil
}
