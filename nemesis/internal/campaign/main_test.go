package campaign_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/nemesis/internal/campaign"
	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/nemesis/internal/worker"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(worker.Env); spec != "" {
		os.Exit(worker.Main(spec, os.Stdin, os.Stdout, os.Stderr))
	}
	if addr := os.Getenv(holderEnv); addr != "" {
		hold(addr)
	}
	goleak.VerifyTestMain(m, redistest.Lingering()...)
}

// patience is how long a test waits for what comes soon, on a busy machine too.
const patience = 20 * time.Second

// start starts a server that workers can log in to.
func start(t *testing.T) *redistest.Server {
	t.Helper()
	return redistest.Start(t, "--user", deploy.User, "on", ">"+deploy.Password, "~*", "&*", "+@all")
}

// target is a server, to be reached by way of an address.
func target(server, by string) deploy.Spec {
	return deploy.Spec{
		Kind: deploy.Standalone, Addrs: []string{server}, By: map[string]string{server: by},
	}
}

// node is what one process has.
type node struct {
	keeper *renewer.Keeper
	close  func()
}

// connect makes a node whose owner must close it, when its keeper is shut down.
func connect(spec deploy.Spec, ttl time.Duration) (*node, error) {
	conn, err := spec.Connect(patience) // which bounds a connection's time on a busy machine
	if err != nil {
		return nil, err
	}
	keeper, err := renewer.New(conn.Store, worker.Config(ttl))
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &node{keeper, conn.Close}, nil
}

// join makes a node, and what ends it: after that, nothing may be left on the server.
func join(
	t *testing.T, server *redistest.Server, ttl time.Duration,
) (keeper *renewer.Keeper, end func()) {
	t.Helper()
	n, err := connect(target(server.Addr(), server.Addr()), ttl)
	require.NoError(t, err)
	return n.keeper, func() {
		require.NoError(t, n.keeper.Shutdown(context.Background()))
		n.close()
		require.Eventually(t, func() bool {
			err = campaign.LeftOn(server, new(deploy.Deployment))
			return err == nil
		}, patience, 10*time.Millisecond, "%v", &err)
	}
}

// atMost is the limit of n.
func atMost(n int) func() int { return func() int { return n } }
