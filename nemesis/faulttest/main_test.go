package faulttest_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/nemesis/internal/kit"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) {
	suite.AtOnce(8)
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

// node is a process that goes to its server by a link.
type node struct {
	*kit.Process
	server *redistest.Server
	link   *proxy.Proxy
}

// join makes a node with a link of its own.
func join(
	t *testing.T, server *redistest.Server, cfg renewer.Config, edit ...func(*rueidis.ClientOption),
) *node {
	t.Helper()
	return joinBy(t, server, proxy.Start(t, server.Addr()), cfg, edit...)
}

// joinBy makes a node on a link, whose faults are over when the test ends.
func joinBy(
	t *testing.T, server *redistest.Server, link *proxy.Proxy, cfg renewer.Config,
	edit ...func(*rueidis.ClientOption),
) *node {
	t.Helper()
	option := server.ClientOption()
	option.InitAddress = []string{link.Addr()}
	for _, f := range edit {
		f(&option)
	}
	n := &node{kit.Start(t, option, cfg, server), server, link}
	t.Cleanup(func() {
		link.Refuse(false)
		link.Delay(0)
		link.DropReply(0, proxy.ThenReset)
		link.HealReset()
	})
	return n
}

// wait lets d go by.
func wait(d time.Duration) { <-time.After(d) }

// moment is a random duration of less than most.
func moment(most time.Duration) time.Duration { return time.Duration(rand.Int64N(int64(most))) }
