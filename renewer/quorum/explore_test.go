package quorum_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
)

// enough worlds for all that is explored here; more would be a mistake.
const enough = 500_000

func TestRuleHasNoViolation(t *testing.T) {
	t.Parallel()
	all := map[string]rules{
		"clocks that differ": {
			nodes: 3, write: 2, tries: [3]int8{2, 1, 1},
			first: [3]int8{1, 3, 2},
		},
		"a single node": {
			nodes: 1, write: 1, tries: [3]int8{2, 2, 1},
			first: [3]int8{2, 1, 1},
		},
	}
	if suite.Long() {
		all["two who try twice"] = rules{ // the third's token is below all counters
			nodes: 3, write: 2, tries: [3]int8{2, 2, 1},
			first: [3]int8{1, 1, 0},
		}
		all["two who try twice, one once"] = rules{
			nodes: 3, write: 2, tries: [3]int8{2, 2, 1},
			first: [3]int8{1, 1, 2},
		}
	}
	for name, r := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story, worlds := r.explore(enough)
			require.Empty(t, story)
			t.Logf("%d worlds", worlds)
		})
	}
}

// The explorer finds what is known to be wrong, so that it would find it in the
// rule.
func TestExplorerFindsViolations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules rules
		want  string
	}{
		"nodes accept a lower token": {
			rules{
				nodes: 3, write: 2, naive: true, tries: [3]int8{1, 1, 1},
				first: [3]int8{3, 2, 1},
			}, "token 2 granted after 3",
		},
		"no majority": {
			rules{nodes: 3, write: 1, tries: [3]int8{1, 1, 1}, first: [3]int8{1, 2, 3}},
			"2 holders at once",
		},
		"a release overtaken by the owner's next attempt": {
			rules{
				nodes: 3, write: 2, unbarred: true, tries: [3]int8{2, 2, 1},
				first: [3]int8{1, 1, 2},
			}, "2 holders at once",
		},
		"a node forgets": {
			rules{nodes: 3, write: 2, forget: 1, tries: [3]int8{1, 1, 1}, first: [3]int8{2, 1, 1}},
			"token 1 granted after 2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story, worlds := c.rules.explore(enough)
			assert.Contains(t, story, c.want)
			t.Logf("%d worlds\n%s", worlds, story)
		})
	}
}
