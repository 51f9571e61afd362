package quorum_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// letters says in a letter what a node answers.
var letters = map[rune]store.Status{
	'y': store.StatusHeld, 't': store.StatusTaken, 'g': store.StatusGone,
	'b': store.StatusBehind, '?': store.StatusUnknown, 'x': store.Status(99),
}

func counted(nodes int, answers string) *quorum.Majority {
	m := quorum.NewMajority(nodes)
	for _, a := range answers {
		m.Count(letters[a])
	}
	return m
}

func TestMajority(t *testing.T) {
	t.Parallel()
	const reached, reachable, refused, unavailable = 1, 2, 4, 8
	for _, c := range []struct {
		nodes        int
		answers      string
		silent, says int
	}{
		{1, "", 1, reachable},
		{1, "y", 0, reached | reachable},
		{1, "t", 0, refused},
		{1, "?", 0, unavailable},
		{3, "", 3, reachable},
		{3, "y", 2, reachable},
		{3, "yy", 1, reached | reachable},
		{3, "yyt", 0, reached | reachable},
		{3, "t", 2, reachable},
		{3, "tg", 1, refused},
		{3, "gg", 1, refused},
		{3, "??", 1, unavailable},
		{3, "xx", 1, unavailable},
		{3, "t?", 1, 0},
		{3, "t?y", 0, 0},
		{3, "bb", 1, 0},
		{3, "byy", 0, reached | reachable},
		{5, "yyt?", 1, reachable},
		{5, "ttt", 2, refused},
	} {
		t.Run(fmt.Sprintf("%d %s", c.nodes, c.answers), func(t *testing.T) {
			t.Parallel()
			m := counted(c.nodes, c.answers)
			assert.Equal(t, c.silent, m.Silent())
			assert.Equal(t, c.says&reached != 0, m.Reached(), "reached")
			assert.Equal(t, c.says&reachable != 0, m.Reachable(), "reachable")
			assert.Equal(t, c.says&refused != 0, m.Refused(), "refused")
			assert.Equal(t, c.says&unavailable != 0, m.Unavailable(), "unavailable")
		})
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
		assert.Equal(t, store.StatusUnknown, g.Status)
		require.ErrorIs(t, g.Err, context.DeadlineExceeded)
		assert.Len(t, nodes[0].Calls(script.Acquire), asked, "nothing was asked")
	})
}
