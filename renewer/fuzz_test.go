package renewer_test

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// oddStore answers as bytes say, until they are used up; then it is as good as
// any.
type oddStore struct {
	*script.Store

	mu  sync.Mutex // guards raw
	raw []byte
}

func (s *oddStore) Engine() store.Store { return s }

// odd returns how the next call is to be answered, if not well.
func (s *oddStore) odd() (kind byte, number func() int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.raw) == 0 {
		return 0, nil, false
	}
	kind, s.raw = s.raw[0], s.raw[1:]
	return kind, func() int64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		var eight [8]byte
		s.raw = s.raw[copy(eight[:], s.raw):]
		return int64(binary.LittleEndian.Uint64(eight[:]))
	}, true
}

// count is how many answers there are to n items: one too few, as many, or one
// too many.
func count(kind byte, n int) int { return max(0, n+int(kind>>6)%3-1) }

func (s *oddStore) Acquire(ctx context.Context, claims []store.Claim) []store.Grant {
	kind, number, odd := s.odd()
	if !odd {
		return s.Store.Acquire(ctx, claims)
	}
	grants := make([]store.Grant, count(kind, len(claims)))
	for i := range grants {
		grants[i] = store.Grant{
			Status: store.Status(kind % 8), Fence: number(),
		}
		if kind&32 != 0 {
			grants[i].Reserved = int(number())
			grants[i].TTL, grants[i].HeldFor = time.Duration(number()), time.Duration(number())
		}
	}
	return grants
}

func (s *oddStore) answers(
	ctx context.Context, holds []store.Hold,
	good func(context.Context, []store.Hold) []store.Answer,
) []store.Answer {
	kind, number, odd := s.odd()
	if !odd {
		return good(ctx, holds)
	}
	answers := make([]store.Answer, count(kind, len(holds)))
	for i := range answers {
		answers[i] = store.Answer{Status: store.Status(kind % 8), Age: time.Duration(number())}
	}
	return answers
}

func (s *oddStore) Renew(ctx context.Context, holds []store.Hold) []store.Answer {
	return s.answers(ctx, holds, s.Store.Renew)
}

func (s *oddStore) Release(ctx context.Context, holds []store.Hold) []store.Answer {
	return s.answers(ctx, holds, s.Store.Release)
}

// Whatever a store answers: no panic, a lease or an error of a kind, each in
// its time, and nothing of it is left when the store is well again.
func FuzzOddStore(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1 | 64, 255, 255, 255, 255, 255, 255, 255, 127, 64})
	f.Add([]byte{
		1 | 32 | 64, 5, 0, 0, 0, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 127, 0, 0,
		0, 0, 0, 0, 0, 128,
	})
	f.Add([]byte{
		2 | 32 | 64, 0, 0, 0, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9,
		9, 255, 255, 255, 255, 255, 255, 255, 255,
	})
	f.Add([]byte{0, 1, 128, 3 | 64, 4 | 64, 5 | 64, 6 | 64})
	f.Fuzz(func(t *testing.T, raw []byte) {
		synctest.Test(t, func(t *testing.T) {
			s := &oddStore{Store: script.New(), raw: raw[:min(len(raw), 200)]}
			k, err := renewer.New(s, config)
			require.NoError(t, err)
			for range 3 {
				begun := time.Now()
				l, err := k.Acquire(t.Context(), renewer.Request{Name: "a", MaxWait: time.Second})
				require.LessOrEqual(t, time.Since(begun), time.Second+rounding)
				if err != nil {
					require.Nil(t, l)
					var failed *renewer.Error
					require.ErrorAs(t, err, &failed)
					continue
				}
				require.LessOrEqual(t, l.Remaining(), goodFor+rounding)
				waitFor(config.Heartbeat + time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				_ = l.Release(ctx) // whether it was known to be freed is the store's to say
				cancel()
			}
			s.mu.Lock()
			s.raw = nil
			s.mu.Unlock()
			waitFor(2 * config.TTL)
			l := acquire(t, k, "a")
			require.NoError(t, l.Release(t.Context()))
			require.NoError(t, k.Shutdown(t.Context()))
			waitFor(time.Minute)
			names, orphans := k.NamesAndOrphans()
			require.Zero(t, names+orphans)
		})
	})
}
