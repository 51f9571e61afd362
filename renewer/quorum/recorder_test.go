package quorum_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

// recordTTL is that of records and terms.
const recordTTL = time.Hour

func look(ctx context.Context, s renewer.Recorder, fence int64) renewer.Seen {
	return s.Look(ctx, []renewer.Look{{Name: "n", Fence: fence, TTL: recordTTL}})[0]
}

func write(ctx context.Context, s renewer.Recorder, fence, seq int64, data string) renewer.Answer {
	return s.Write(ctx, []renewer.Record{{Name: "n", Fence: fence, Seq: seq, Data: data, TTL: recordTTL}})[0]
}

// put writes a record on one node, as the writer whose term it is there.
func put(t *testing.T, node *script.Store, fence, seq int64, data string) {
	t.Helper()
	require.Equal(t, renewer.Mine, look(t.Context(), node, fence).Status)
	require.Equal(t, renewer.Mine, write(t.Context(), node, fence, seq, data).Status)
}

// onNodes is each node's record.
func onNodes(nodes []*script.Store) string {
	var all []string
	for _, node := range nodes {
		all = append(all, node.RecordOf("n"))
	}
	return strings.Join(all, ",")
}

// mute makes a node's answers about records as given.
func mute(node *script.Store, how script.Step) {
	node.Default(script.Look, how)
	node.Default(script.Write, how)
}

func TestRecordsWithAFaultyNode(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]script.Step{
		"hung": script.Hang(), "refused": script.Fail(errDown), "replies lost": script.Pass().Broken(errDown),
		"slow": script.Pass().Slow(300 * time.Microsecond).Late(300 * time.Microsecond),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunInBubble(t, func(t *testing.T) storetest.Fixture {
				nodes, stores := scripted(3)
				mute(nodes[1], step)
				s, err := quorum.New(stores)
				require.NoError(t, err)
				t.Cleanup(func() {
					s.Close()
					pass(time.Minute)
				})
				return storetest.Fixture{Store: s}
			})
		})
	}
}

// What one node has may have been refused to its writer. Nobody is shown it until the next holder has made it everybody's.
func TestAWriteThatOneNodeHas(t *testing.T) {
	t.Parallel()
	in(t, 3, func(t *testing.T, s *quorum.Store, nodes []*script.Store) {
		look(t.Context(), s, 5)
		synctest.Wait() // a node that is looked at later refuses the write
		require.Equal(t, renewer.Mine, write(t.Context(), s, 5, 1, "begun").Status)
		synctest.Wait()
		require.Equal(t, "begun,begun,begun", onNodes(nodes))
		nodes[1].Script(script.Write, script.Fail(errDown))
		nodes[2].Script(script.Write, script.Hang())
		a := write(limited(t, time.Second), s, 5, 2, "done")
		require.Equal(t, renewer.Unknown, a.Status)
		require.ErrorIs(t, a.Err, errDown)
		require.Equal(t, "done,begun,begun", onNodes(nodes))

		require.Equal(t, "begun", look(t.Context(), s, 0).Data, "two agree, so the third's is not written")
		mute(nodes[2], script.Hang())
		seen := look(limited(t, time.Second), s, 0)
		require.Equal(t, renewer.Unknown, seen.Status, "it may be")
		require.Error(t, seen.Err)

		seen = look(limited(t, time.Second), s, 6)
		require.Equal(t, renewer.Mine, seen.Status, "%v", seen.Err)
		require.Equal(t, "done", seen.Data)
		require.Equal(t, int64(6), seen.Fence, "under the token of who looks")
		require.InDelta(t, recordTTL, seen.TTL, float64(5*time.Second))
		require.Equal(t, "done,done,begun", onNodes(nodes))
		mute(nodes[2], script.Pass())
		require.Equal(t, "done", look(t.Context(), s, 0).Data)
		require.Equal(t, renewer.Taken, write(t.Context(), s, 5, 3, "late").Status)
		require.Equal(t, renewer.Mine, write(t.Context(), s, 6, seen.Seq+1, "next").Status)
		require.Equal(t, "next", look(t.Context(), s, 0).Data)
		require.Equal(t, renewer.Mine, look(t.Context(), s, 6).Status, "again")
	})
}

// A look that was repeated, since the first could not say what it had found, never gives one number to two records.
func TestALookThatIsRepeated(t *testing.T) {
	t.Parallel()
	in(t, 3, func(t *testing.T, s *quorum.Store, nodes []*script.Store) {
		put(t, nodes[0], 5, 2, "new")
		put(t, nodes[1], 5, 1, "old")
		put(t, nodes[2], 5, 1, "old")
		nodes[2].Script(script.Look, script.Fail(errDown))
		nodes[1].Script(script.Write, script.Fail(errDown))
		nodes[2].Script(script.Write, script.Fail(errDown))
		require.Equal(t, renewer.Unknown, look(limited(t, time.Second), s, 6).Status, "it has written the new one on the first only")
		nodes[0].Script(script.Look, script.Fail(errDown))
		require.Equal(t, "old", look(limited(t, time.Second), s, 6).Data, "the two others, which agree")
		nodes[1].Script(script.Look, script.Fail(errDown))
		seen := look(limited(t, time.Second), s, 6)
		require.Equal(t, "new", seen.Data)
		synctest.Wait()
		require.Equal(t, "new,new,new", onNodes(nodes))
		require.Equal(t, renewer.Mine, write(t.Context(), s, 6, seen.Seq+1, "next").Status)
		synctest.Wait()
		require.Equal(t, "next,next,next", onNodes(nodes))
	})
}

// Who looks, and has to write anew what too few nodes have, is refused by one node that a later holder has looked at meanwhile, though
// another does not answer: as it would have been by the look itself.
func TestALaterLookBesideASilentNode(t *testing.T) {
	t.Parallel()
	in(t, 3, func(t *testing.T, s *quorum.Store, nodes []*script.Store) {
		put(t, nodes[0], 5, 1, "new")
		put(t, nodes[1], 4, 1, "old") // no two agree
		nodes[1].Script(script.Write, script.Pass().Broken(errDown))
		nodes[2].Script(script.Write, script.Pass().Slow(time.Second))
		seen := make(chan renewer.Seen, 1)
		go func() { seen <- look(limited(t, 10*time.Second), s, 6) }()
		synctest.Wait()
		later := renewer.Look{Name: "n", Fence: 7, TTL: recordTTL}
		require.Equal(t, renewer.Mine, nodes[2].Look(t.Context(), []renewer.Look{later})[0].Status)
		require.Equal(t, renewer.Seen{Status: renewer.Taken}, <-seen)
	})
}

// A node that has missed the look makes up for it, so that any two will do.
func TestANodeThatMissedTheLook(t *testing.T) {
	t.Parallel()
	for name, how := range dead {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, 3, func(t *testing.T, s *quorum.Store, nodes []*script.Store) {
				mute(nodes[2], script.Fail(errDown))
				require.Equal(t, renewer.Mine, look(t.Context(), s, 5).Status)
				synctest.Wait()
				mute(nodes[2], script.Pass())
				mute(nodes[1], how)
				d := took(func() { require.Equal(t, renewer.Mine, write(limited(t, time.Second), s, 5, 1, "begun").Status) })
				require.LessOrEqual(t, d, 20*time.Millisecond)
				require.Equal(t, "begun,,begun", onNodes(nodes))
			})
		})
	}
}

func TestALapsedTermIsNotJoined(t *testing.T) {
	t.Parallel()
	in(t, 3, func(t *testing.T, s *quorum.Store, nodes []*script.Store) {
		look(t.Context(), s, 5)
		require.Equal(t, renewer.Mine, write(t.Context(), s, 5, 1, "begun").Status)
		pass(recordTTL)
		require.Equal(t, renewer.Answer{Status: renewer.Gone}, write(t.Context(), s, 5, 2, "done"))
		require.Equal(t, ",,", onNodes(nodes))
		require.Equal(t, renewer.Seen{Status: renewer.Mine}, look(t.Context(), s, 0))
	})
}

// A later holder's look that has reached one node only does not keep the writer from writing on the others.
func TestRefusals(t *testing.T) {
	t.Parallel()
	in(t, 3, func(t *testing.T, s *quorum.Store, nodes []*script.Store) {
		look(t.Context(), s, 5)
		synctest.Wait()
		look(t.Context(), nodes[2], 6)
		require.Equal(t, renewer.Mine, write(t.Context(), s, 5, 1, "begun").Status)
		look(t.Context(), nodes[1], 6)
		require.Equal(t, renewer.Answer{Status: renewer.Taken}, write(t.Context(), s, 5, 2, "done"))
		require.Equal(t, renewer.Seen{Status: renewer.Taken}, look(t.Context(), s, 5))

		mute(nodes[0], script.Fail(errDown))
		mute(nodes[1], script.Fail(errDown))
		a := write(t.Context(), s, 6, 1, "x")
		require.ErrorContains(t, a.Err, "of 3 nodes gave no answer, 2 must agree: node 1")
		seen := look(t.Context(), s, 0)
		require.ErrorContains(t, seen.Err, "of 3 nodes gave no answer, 2 must agree: node 1")
		require.ErrorIs(t, seen.Err, errDown)
	})
}

func TestRecordsOfOddNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, err := quorum.New([]renewer.Store{struct{ renewer.Store }{memory.New()}})
		require.NoError(t, err)
		defer s.Close()
		for _, err := range []error{look(t.Context(), s, 0).Err, look(t.Context(), s, 1).Err, write(t.Context(), s, 1, 1, "").Err} {
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.ErrorIs(t, err, renewer.ErrRejected)
			require.ErrorContains(t, err, "renewer.Recorder")
		}
		require.ErrorIs(t, s.Look(t.Context(), []renewer.Look{{Name: "n", Fence: 1}})[0].Err, renewer.ErrConfig)
		require.ErrorIs(t, s.Write(t.Context(), []renewer.Record{{Name: "n", Fence: 1, Seq: 1}})[0].Err, renewer.ErrConfig)
	})
}

// Many holders look and write, two at a time, over nodes that fail, hang, are late and lose replies. Each writes what it has seen and
// its own mark, so that a record tells its history. What has been written once is in the history of all that is seen later.
func TestRandomRecords(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5} {
		for seed := range uint64(150) {
			t.Run(fmt.Sprint(n, " nodes, seed ", seed), func(t *testing.T) {
				t.Parallel()
				in(t, n, func(t *testing.T, s *quorum.Store, nodes []*script.Store) { history(t, s, nodes, seed) })
			})
		}
	}
}

func history(t *testing.T, s *quorum.Store, nodes []*script.Store, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // luck, not secrets
	var mu sync.Mutex
	var written []string // marks
	known := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), written...)
	}
	includes := func(marks []string, seen renewer.Seen, who string) {
		for _, mark := range marks {
			assert.Contains(t, seen.Data, mark, "%s has not seen it", who)
		}
	}
	for fence := int64(1); fence <= 30; fence++ {
		for _, node := range nodes {
			for _, op := range []script.Op{script.Look, script.Write} {
				node.Default(op, misfortune(dice))
			}
		}
		begun := make(chan struct{})
		repeat, writes := dice.IntN(3), dice.IntN(3)
		go func() {
			defer close(begun)
			who := fmt.Sprint("holder ", fence)
			before := known()
			seen := look(limited(t, time.Second), s, fence)
			for range repeat {
				before = known()
				seen = look(limited(t, time.Second), s, fence)
			}
			if seen.Status != renewer.Mine {
				return
			}
			includes(before, seen, who)
			seq, data := int64(0), seen.Data
			if seen.Fence == fence {
				seq = seen.Seq
			}
			for i := range writes {
				mark := fmt.Sprintf("<%d.%d>", fence, i)
				seq, data = seq+1, data+mark
				if write(limited(t, time.Second), s, fence, seq, data).Status != renewer.Mine {
					return
				}
				mu.Lock()
				written = append(written, mark)
				mu.Unlock()
				pass(time.Millisecond)
			}
		}()
		if dice.IntN(2) == 0 {
			<-begun
		} else {
			pass(time.Duration(dice.IntN(30)) * time.Millisecond)
		}
		before := known()
		if seen := look(limited(t, time.Second), s, 0); seen.Status == renewer.Mine {
			includes(before, seen, "an onlooker")
		}
	}
	for _, node := range nodes {
		mute(node, script.Pass())
	}
	pass(3 * time.Second) // for whoever is still at it
	seen := look(t.Context(), s, 1000)
	require.Equal(t, renewer.Mine, seen.Status)
	includes(known(), seen, "the last one")
}

// misfortune is what befalls a node's questions.
func misfortune(dice *rand.Rand) script.Step {
	switch dice.IntN(10) {
	case 0:
		return script.Fail(errDown)
	case 1:
		return script.Hang()
	case 2:
		return script.Pass().Broken(errDown)
	case 3:
		return script.Pass().Slow(time.Duration(dice.IntN(40)) * time.Millisecond)
	case 4:
		return script.Pass().Late(time.Duration(dice.IntN(40)) * time.Millisecond)
	default:
		return script.Pass()
	}
}

// A look of the same holder that could not say what it had found has left it on one node. What the holder writes after another look, which
// has missed that node, must not be taken for older.
func TestALookWithoutAnAnswerLeavesNothingNewer(t *testing.T) {
	t.Parallel()
	in(t, 3, func(t *testing.T, s *quorum.Store, nodes []*script.Store) {
		put(t, nodes[0], 5, 1<<32+1, "doubtful")
		nodes[2].Script(script.Look, script.Fail(errDown))
		nodes[1].Script(script.Write, script.Fail(errDown))
		nodes[2].Script(script.Write, script.Fail(errDown))
		require.Equal(t, renewer.Unknown, look(limited(t, time.Second), s, 6).Status)
		nodes[0].Script(script.Look, script.Fail(errDown))
		require.Equal(t, renewer.Seen{Status: renewer.Mine}, look(limited(t, time.Second), s, 6), "the two others have nothing")
		nodes[0].Script(script.Write, script.Fail(errDown))
		require.Equal(t, renewer.Mine, write(t.Context(), s, 6, 1, "written").Status)
		nodes[1].Script(script.Look, script.Fail(errDown))
		require.Equal(t, "written", look(limited(t, time.Second), s, 7).Data)
	})
}

// A look that comes late to one node sets the term there anew. That must not bring back a record that has lapsed on the others.
func TestALateLookBringsNothingBack(t *testing.T) {
	t.Parallel()
	in(t, 3, func(t *testing.T, s *quorum.Store, nodes []*script.Store) {
		require.Equal(t, renewer.Mine, s.Look(t.Context(), []renewer.Look{{Name: "n", Fence: 5, TTL: time.Second}})[0].Status)
		synctest.Wait()
		pass(2 * time.Second)
		require.Equal(t, renewer.Mine, nodes[2].Look(t.Context(), []renewer.Look{{Name: "n", Fence: 5, TTL: time.Minute}})[0].Status)
		require.Equal(t, renewer.Gone, write(t.Context(), s, 5, 1, "late").Status)
	})
}
