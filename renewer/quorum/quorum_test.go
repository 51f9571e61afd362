package quorum_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformanceInBubble(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			storetest.RunInBubble(t, func(t *testing.T) storetest.Fixture {
				var nodes []renewer.Store
				for range n {
					nodes = append(nodes, memory.New())
				}
				s, err := quorum.New(nodes)
				require.NoError(t, err)
				return storetest.Fixture{Store: s}
			})
		})
	}
}
