package quorum_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// letters says in a letter what a node answers.
var letters = map[rune]renewer.Status{
	'y': renewer.StatusHeld, 't': renewer.StatusTaken, 'g': renewer.StatusGone,
	'b': renewer.StatusBehind, '?': renewer.StatusUnknown, 'x': renewer.Status(99),
}

func counted(nodes, needed int, answers string) *quorum.Majority {
	m := quorum.NewMajority(nodes, needed)
	for _, a := range answers {
		m.Count(letters[a])
	}
	return m
}

func TestMajority(t *testing.T) {
	t.Parallel()
	const reached, reachable, refused, unavailable = 1, 2, 4, 8
	for _, c := range []struct {
		nodes, needed int
		answers       string
		silent, says  int
	}{
		{1, 1, "", 1, reachable},
		{1, 1, "y", 0, reached | reachable},
		{1, 1, "t", 0, refused},
		{1, 1, "?", 0, unavailable},
		{3, 2, "", 3, reachable},
		{3, 2, "y", 2, reachable},
		{3, 2, "yy", 1, reached | reachable},
		{3, 2, "yyt", 0, reached | reachable},
		{3, 2, "t", 2, reachable},
		{3, 2, "tg", 1, refused},
		{3, 2, "gg", 1, refused},
		{3, 2, "??", 1, unavailable},
		{3, 2, "xx", 1, unavailable},
		{3, 2, "t?", 1, 0},
		{3, 2, "t?y", 0, 0},
		{3, 2, "bb", 1, 0},
		{3, 2, "byy", 0, reached | reachable},
		{5, 3, "yyt?", 1, reachable},
		{5, 3, "ttt", 2, refused},
		{5, 4, "tt", 3, refused},
		{5, 4, "yyyy", 1, reached | reachable},
		{5, 4, "yyy", 2, reachable},
		{5, 4, "yyyt", 1, reachable},
		{5, 4, "yyytt", 0, refused},
	} {
		t.Run(fmt.Sprintf("%d of %d %s", c.needed, c.nodes, c.answers), func(t *testing.T) {
			t.Parallel()
			m := counted(c.nodes, c.needed, c.answers)
			assert.Equal(t, c.silent, m.Silent())
			assert.Equal(t, c.says&reached != 0, m.Reached(), "reached")
			assert.Equal(t, c.says&reachable != 0, m.Reachable(), "reachable")
			assert.Equal(t, c.says&refused != 0, m.Refused(), "refused")
			assert.Equal(t, c.says&unavailable != 0, m.Unavailable(), "unavailable")
		})
	}
}

// Whatever the nodes answer, in any order: what is decided stays decided, a count that is reached
// is neither refused nor unavailable, and one that can't be reached never is.
func TestMajorityStandsByWhatItSaid(t *testing.T) {
	t.Parallel()
	var play func(t *testing.T, nodes, needed int, answers string)
	play = func(t *testing.T, nodes, needed int, answers string) {
		t.Helper()
		m := counted(nodes, needed, answers)
		require.Equal(t, nodes-len(answers), m.Silent(), answers)
		if m.Reached() {
			require.False(t, m.Refused() || m.Unavailable(), "%d: %s", needed, answers)
			require.True(t, m.Reachable(), "%d: %s", needed, answers)
		}
		if m.Refused() || m.Unavailable() {
			require.False(t, m.Reachable(), "%d: %s", needed, answers)
		}
		if len(answers) == nodes {
			require.Equal(t, m.Reached(), m.Reachable(), "%d: %s", needed, answers)
			return
		}
		for next := range letters {
			later := counted(nodes, needed, answers+string(next))
			require.True(t, later.Reached() || !m.Reached(), "%d: %s", needed, answers)
			require.True(t, later.Refused() || !m.Refused(), "%d: %s", needed, answers)
			require.True(t, later.Unavailable() || !m.Unavailable(), "%d: %s", needed, answers)
			require.True(t, m.Reachable() || !later.Reachable(), "%d: %s", needed, answers)
			play(t, nodes, needed, answers+string(next))
		}
	}
	for nodes := 1; nodes <= 4; nodes++ {
		for needed := 1; needed <= nodes; needed++ {
			play(t, nodes, needed, "")
		}
	}
}

// Any nodes that grant and any that keep have more in common than may forget; with one fewer of
// either they would not.
func TestSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nodes, forgetful, grant, keep int }{
		{1, 0, 1, 1},
		{3, 0, 2, 2},
		{3, 1, 3, 2},
		{3, 2, 3, 3},
		{5, 0, 3, 3},
		{5, 1, 4, 3},
		{5, 2, 4, 4},
		{7, 0, 4, 4},
		{7, 1, 5, 4},
	} {
		grant, keep := quorum.Sizes(c.nodes, c.forgetful)
		assert.Equal(t, c.grant, grant, "%+v", c)
		assert.Equal(t, c.keep, keep, "%+v", c)
		assert.Equal(t, c.forgetful+1, grant+keep-c.nodes, "%+v", c)
		assert.Greater(t, 2*grant-c.nodes, c.forgetful, "two grants: %+v", c)
	}
}

func TestHighestAndLowest(t *testing.T) {
	t.Parallel()
	for n, want := range []int{0, 9, 7, 7, 2} {
		if n > 0 {
			assert.Equal(t, want, quorum.Highest([]int{7, 2, 9, 7}, n))
		}
	}
	for n, want := range []int{0, 2, 7, 7, 9} {
		if n > 0 {
			assert.Equal(t, want, quorum.Lowest([]int{7, 2, 9, 7}, n))
		}
	}
}

// An acquire whose time is over before a node was asked is no grant.
func TestTimeIsUpBeforeAnythingIsAsked(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Store, nodes []*script.Store) {
		mustAcquire(t, s, "a")
		for _, node := range nodes {
			node.Script(script.Release, script.Hang())
		}
		go release(limited(t, time.Second), s, "a")
		waitFor(time.Millisecond)
		asked := len(nodes[0].Calls(script.Acquire))
		g := acquire(limited(t, time.Millisecond), s, "a")
		assert.Equal(t, renewer.StatusUnknown, g.Status)
		require.ErrorIs(t, g.Err, context.DeadlineExceeded)
		assert.Len(t, nodes[0].Calls(script.Acquire), asked, "nothing was asked")
	})
}
