package quorum_test

import (
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// oddNode is a node that answers as bytes say, its membership included, until
// they are used up; then it is as good as any.
type oddNode struct {
	*script.Store

	mu  sync.Mutex // guards raw
	raw []byte
}

func (n *oddNode) next() (b byte, ok bool) {
	if len(n.raw) == 0 {
		return 0, false
	}
	b, n.raw = n.raw[0], n.raw[1:]
	return b, true
}

func (n *oddNode) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.raw = nil
}

func (n *oddNode) number() int64 {
	var eight [8]byte
	n.raw = n.raw[copy(eight[:], n.raw):]
	return int64(binary.LittleEndian.Uint64(eight[:]))
}

func (n *oddNode) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	return odd(n, len(claims), n.grant, func() []store.Grant { return n.Store.Acquire(ctx, claims) })
}

func (n *oddNode) Propose(ctx context.Context, proposals []contract.Proposal) []store.Grant {
	return odd(n, len(proposals), n.grant,
		func() []store.Grant { return n.Store.Propose(ctx, proposals) })
}

func (n *oddNode) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	return odd(n, len(holds), n.answer, func() []store.Answer { return n.Store.Renew(ctx, holds) })
}

func (n *oddNode) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	return odd(n, len(holds), n.answer,
		func() []store.Answer { return n.Store.Release(ctx, holds) })
}

// odd answers so many questions, or one too few or too many, until the bytes
// are used up.
func odd[A any](n *oddNode, asked int, answer func(kind byte) A, good func() []A) []A {
	n.mu.Lock()
	defer n.mu.Unlock()
	kind, left := n.next()
	if !left {
		return good()
	}
	answers := make([]A, max(0, asked+int(kind>>6)%3-1))
	for i := range answers {
		answers[i] = answer(kind)
	}
	return answers
}

func (n *oddNode) grant(kind byte) (g store.Grant) {
	if g.Status = store.Status(kind % 8); g.Status == store.StatusUnknown && kind&8 != 0 {
		g.Err = errors.New("odd")
	}
	g.Fence = n.number()
	if kind&32 != 0 {
		g.Reserved = int(n.number())
		g.TTL, g.HeldFor = time.Duration(n.number()), time.Duration(n.number())
		g.Holder = store.Holder{
			Node: string(n.raw[:min(3, len(n.raw))]), PID: -1,
			Operation: strings.Repeat("x", int(kind)),
		}
	}
	return g
}

func (n *oddNode) answer(kind byte) store.Answer {
	return store.Answer{Status: store.Status(kind % 8), Age: time.Duration(n.number())}
}

// Whatever one of three nodes answers, counters and membership included: no
// panic, every item an answer, no call above its time, and locks are to be had
// again once it behaves.
func FuzzOddNode(f *testing.F) {
	f.Add([]byte{}, false)
	f.Add([]byte{1 | 64, 255, 255, 255, 255, 255, 255, 255, 127}, false)
	f.Add([]byte{4 | 32 | 64, 255, 255, 255, 255, 255, 255, 31, 0, 1, 2, 3}, false)
	f.Add([]byte{2 | 32 | 64, 1, 0, 0, 0, 0, 0, 0, 0, 9, 9}, true)
	f.Add([]byte{0, 128, 1, 5 | 64, 6 | 64, 3 | 64}, true)
	f.Fuzz(func(t *testing.T, raw []byte, named bool) {
		raw = raw[:min(len(raw), 400)] // so that they are used up
		synctest.Test(t, func(t *testing.T) {
			_, all := scripted(3)
			odd := &oddNode{Store: script.New(), raw: raw}
			all[0] = odd
			var opts []quorum.Option
			if named {
				opts = append(opts, quorum.Names("a", "b", "c"))
			}
			defer waitFor(time.Minute)
			s, err := quorum.NewEngine(all, opts...)
			if err != nil {
				require.ErrorIs(t, err, renewer.ErrConfig)
				return
			}
			defer s.Close()
			for round := range 8 {
				oddRound(t, s, string(rune('a'+round)))
			}
			odd.forget()
			waitFor(quorum.MembershipTTL + ttl)
			acquire(limited(t, time.Second), s, "y")
			waitFor(time.Second) // in which it compares its nodes again
			release(limited(t, time.Second), s, "y")
			mustAcquire(t, s, "z")
		})
	})
}

// oddRound takes, renews and frees a lock in a quorum with an odd node.
func oddRound(t *testing.T, s *quorum.Engine, letter string) {
	t.Helper()
	ctx := limited(t, time.Second)
	begun := time.Now()
	grants := s.Acquire(ctx, []store.Claim{claim("n", letter), claim("m", letter)})
	require.Len(t, grants, 2)
	for _, g := range grants {
		require.Equal(t, g.Status == store.StatusUnknown, g.Err != nil)
		require.Equal(t, g.Status == store.StatusHeld, g.Fence > 0, "%+v", g)
	}
	holds := []store.Hold{hold("n", letter), hold("m", letter)}
	for _, answers := range [][]store.Answer{s.Renew(ctx, holds), s.Release(ctx, holds)} {
		require.Len(t, answers, 2)
		for _, a := range answers {
			require.Equal(t, a.Status == store.StatusUnknown, a.Err != nil)
		}
	}
	require.LessOrEqual(t, time.Since(begun), time.Second)
}
