package quorum_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// watching collects what a watch hears, by the time since it began.
func watching(s *quorum.Engine) (heard func() []string, stop func()) {
	var mu sync.Mutex
	var all []string
	begun := time.Now()
	stop = s.Watch("n", false, func(err error) {
		text := time.Since(begun).String()
		if err != nil {
			text += " " + err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, text)
	})
	return func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all)
	}, stop
}

func TestWokenWhenAMajorityMayBeFree(t *testing.T) {
	t.Parallel()
	inBubble(t, 5, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		for _, node := range nodes {
			node.Mute(true)
		}
		heard, stop := watching(s)
		wake := func(is ...int) {
			for _, i := range is {
				require.Equal(t, 1, nodes[i].Wake("n", nil))
			}
		}
		wake(0, 1, 0)
		assert.Empty(t, heard(), "two of five")
		wake(2)
		assert.Equal(t, []string{"0s"}, heard())
		waitFor(4 * time.Millisecond)
		wake(3, 4)
		waitFor(time.Second)
		assert.Len(t, heard(), 1, "they are of the same release")
		wake(3)
		waitFor(4 * time.Millisecond)
		assert.Len(t, heard(), 1)
		waitFor(time.Millisecond)
		assert.Equal(t, []string{"0s", "1.009s"}, heard(),
			"a few are passed on too, a little later")
		wake(3, 4)
		stop()
		stop()
		waitFor(time.Second)
		assert.Len(t, heard(), 2)
		for _, node := range nodes {
			assert.Zero(t, node.Watchers("n"))
		}
	})
}

// A stopped watch is silent though a node's wake-up was under way, or its stop
// is late.
func TestStoppedWatchIsSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node := &unstoppable{Store: script.New()}
		s, err := quorum.NewEngine([]store.Store{node})
		require.NoError(t, err)
		heard, stop := watching(s)
		node.wake(nil)
		require.Len(t, heard(), 1)
		stop()
		node.wake(nil)
		node.wake(errDown)
		waitFor(time.Second)
		assert.Len(t, heard(), 1)
	})
}

// unstoppable goes on waking.
type unstoppable struct {
	*script.Store

	wake func(error)
}

func (u *unstoppable) Watch(_ string, _ bool, wake func(error)) func() {
	u.wake = wake
	return func() {}
}

func TestWatchFailsWhenNoNodeCanTell(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *quorum.Engine, nodes []*script.Store) {
		heard, stop := watching(s)
		defer stop()
		require.Equal(t, []string{"0s"}, heard())
		waitFor(time.Second)
		nodes[0].Wake("n", errors.New("A"))
		nodes[1].Wake("n", errors.New("B"))
		nodes[0].Wake("n", errors.New("C"))
		assert.Len(t, heard(), 1, "the third can tell")
		nodes[2].Wake("n", errors.New("D"))
		nodes[2].Wake("n", errors.New("E"))
		assert.Equal(t, []string{"0s", "1s C\nB\nD"}, heard(), "once")
		nodes[1].Wake("n", nil)
		waitFor(time.Second)
		assert.Equal(t, "1.005s", heard()[2], "one is back")
		nodes[1].Wake("n", errors.New("F"))
		assert.Equal(t, "2s C\nF\nE", heard()[3])
	})
}
