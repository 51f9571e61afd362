package quorum_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

func TestConformanceOfMemoryInBubble(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			if n != 3 {
				suite.OnlyLong(t)
			}
			storetest.RunInBubble(t, func(t *testing.T) storetest.Fixture {
				return storetest.Fixture{Store: overMemory(t, n), Several: true, Reserves: true, NoLimits: true}
			})
		})
	}
}

func overMemory(t testing.TB, n int) *quorum.Engine {
	t.Helper()
	var nodes []store.Store
	for range n {
		nodes = append(nodes, memory.New().Engine())
	}
	s, err := quorum.NewEngine(nodes)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// One node answers nothing, refuses, or is slow; outsiders meddle with all of
// them.
func TestConformanceWithAFaultyNode(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]script.Step{
		"none": script.Pass(), "hung": script.Hang(), "refused": script.Fail(errDown),
		"slow":         script.Pass().Slow(300 * time.Microsecond).Late(300 * time.Microsecond),
		"replies lost": script.Pass().Broken(errDown),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "hung" && name != "replies lost" {
				suite.OnlyLong(t)
			}
			storetest.RunInBubble(t, func(t *testing.T) storetest.Fixture {
				nodes, stores := scripted(3)
				for _, op := range []script.Op{script.Acquire, script.Renew, script.Release} {
					nodes[1].Default(op, step)
				}
				s, err := quorum.NewEngine(stores)
				require.NoError(t, err)
				t.Cleanup(func() {
					s.Close()
					waitFor(time.Minute)
				})
				return storetest.Fixture{
					NoLimits: true,
					Store:    s, Several: true,
					Delete: func(name string) {
						for _, node := range nodes {
							node.Delete(name)
						}
					},
					Overwrite: func(name string) {
						for _, node := range nodes {
							node.Overwrite(name, store.Holder{Node: "outsider"}, time.Minute)
						}
					},
				}
			})
		})
	}
}
