package campaign_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/nemesis/internal/campaign"
	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/nemesis/internal/fault"
	"github.com/lockbeat/lockbeat/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// field is a deployment of which nothing runs: a plan only names what it will do.
func field(kind string) *fault.Field {
	f := &fault.Field{
		Deployment: &deploy.Deployment{Kind: kind}, Keys: []string{"x"},
		TTL: 2 * time.Second,
	}
	servers := 1
	switch kind {
	case deploy.Quorum5:
		servers, f.Deployment.Quorum, f.Deployment.Forgetful = 5, true, 1
	case deploy.Sentinel:
		servers = 2
		f.Deployment.Sentinel = &redistest.Sentinel{Sentinels: make([]*redistest.Server, 3)}
	case deploy.Cluster:
		servers, f.Deployment.Cluster = 3, &redistest.Cluster{Masters: make([]*redistest.Server, 3)}
	}
	f.Deployment.Servers = make([]*redistest.Server, servers)
	for range 5 {
		f.Links = append(f.Links, make([]*proxy.Proxy, servers))
	}
	return f
}

func planFor(
	t *testing.T, f *fault.Field, seed uint64, late bool,
) (what [][]string, kinds [][]fault.Kind) {
	t.Helper()
	all, err := fault.Named(f, nil)
	require.NoError(t, err)
	return campaign.Plan(f, all, seed, 500, late)
}

func TestASeedIsAPlan(t *testing.T) {
	t.Parallel()
	f := field(deploy.Standalone)
	one, _ := planFor(t, f, 1, false)
	again, _ := planFor(t, f, 1, false)
	other, _ := planFor(t, f, 2, false)
	assert.Equal(t, one, again)
	assert.NotEqual(t, one, other)
}

// Every fault has its turn; two at a time are of different kinds, and at most one is a server's.
func TestPlan(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		deploy.Standalone, deploy.Sentinel, deploy.Cluster,
		deploy.Quorum5,
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := field(kind)
			seen := make(map[string]bool)
			pairs := 0
			for _, late := range []bool{false, true} {
				_, steps := planFor(t, f, 1, late)
				for _, kinds := range steps {
					require.NotEmpty(t, kinds)
					if len(kinds) == 2 {
						pairs++
						require.NotEqual(t, kinds[0].Name, kinds[1].Name)
						require.True(t, kinds[0].Apart || kinds[1].Apart, "%s and %s",
							kinds[0].Name, kinds[1].Name)
					}
					for _, k := range kinds {
						seen[k.Name] = true
						require.False(t, k.Clock && !late,
							"a clock is stepped before others forget")
						require.False(t, late && k.Forgets && !k.Clock,
							"%s after a clock was stepped", k.Name)
					}
				}
			}
			assert.Positive(t, pairs)
			all, err := fault.Named(f, nil)
			require.NoError(t, err)
			missing := slices.DeleteFunc(all, func(k fault.Kind) bool { return seen[k.Name] })
			assert.Empty(t, missing)
		})
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	o := campaign.Defaults()
	o.Deployment, o.Seed = deploy.Cluster, 7
	assert.Equal(t, "go run . -deployment cluster -seed 7 -duration 50s", o.Replay())
	o.Faults, o.Every, o.TTL, o.Idle, o.Flaw = []string{
		"delay",
		"reset",
	}, 5*time.Second, time.Second, 100, "late-release"
	assert.Equal(t, "go run . -deployment cluster -seed 7 -duration 50s -faults delay,reset "+
		"-every 5s -ttl 1s -idle 100 -flaw late-release", o.Replay())
}
