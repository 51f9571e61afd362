package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

const recordA = "lockbeat:{a}:record"

func look(
	t testing.TB, s *redisstore.Engine, name string, fence int64, ttl time.Duration,
) contract.Seen {
	t.Helper()
	var seen []contract.Seen
	if fence == 0 {
		seen = s.Read(t.Context(), []string{name})
	} else {
		seen = s.Prepare(t.Context(), []contract.Term{{Name: name, Fence: fence, TTL: ttl}})
	}
	require.Len(t, seen, 1)
	if seen[0].Status == contract.StatusHeld {
		assert.WithinDuration(t, time.Now(), seen[0].Now, time.Minute, "its clock is ours")
	}
	seen[0].Now = time.Time{}
	return seen[0]
}

func write(
	t testing.TB, s *redisstore.Engine, name string, fence, seq int64, data string,
) contract.Answer {
	t.Helper()
	answers := s.Write(t.Context(),
		[]contract.Record{{Name: name, Fence: fence, Seq: seq, Data: data, TTL: time.Hour}})
	require.Len(t, answers, 1)
	return answers[0]
}

func TestLookScript(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t)
		t.Log("nothing there, and only looking: nothing is made")
		assert.Equal(t, contract.Seen{Status: contract.StatusHeld}, look(t, store, "a", 0, 0))
		assert.Zero(t, s.number(t, "DBSIZE"))

		t.Log("a term, which lives for its time to live")
		assert.Equal(t, contract.Seen{Status: contract.StatusHeld},
			look(t, store, "a", 5, time.Minute))
		assert.Equal(t, "5 0 0\n", s.get(t, recordA))
		s.pttl(t, recordA, minute-5000, minute)
		assert.Equal(t, contract.Seen{Status: contract.StatusHeld}, look(t, store, "a", 6, time.Hour))
		assert.Equal(t, "6 0 0\n", s.get(t, recordA))
		s.pttl(t, recordA, minute-5000, minute)

		t.Log("a later holder has looked")
		assert.Equal(t, contract.Seen{Status: contract.StatusTaken},
			look(t, store, "a", 5, time.Hour))
		assert.Equal(t, "6 0 0\n", s.get(t, recordA))

		t.Log("a record, as its writer left it")
		s.ok(t, "SET", recordA, "7 3 9007199254740990\ndata\nand more", "PX", "60000")
		want := contract.Seen{
			Status: contract.StatusHeld, Fence: 3, Seq: 1<<53 - 2,
			Data: "data\nand more",
		}
		for _, fence := range []int64{0, 7, 1<<53 - 1} {
			got := look(t, store, "a", fence, time.Hour)
			assert.InDelta(t, time.Minute, got.TTL, float64(5*time.Second))
			got.TTL = 0
			assert.Equal(t, want, got)
		}
		assert.Equal(t, "9007199254740991 3 9007199254740990\ndata\nand more", s.get(t, recordA))
		s.pttl(t, recordA, minute-5000, minute)

		t.Log("one that another program has made to live for ever is given an end by who looks " +
			"next")
		s.ok(t, "SET", recordA, "7 3 1\nx")
		look(t, store, "a", 8, time.Minute)
		s.pttl(t, recordA, minute-5000, minute)
	})
}

// A holder's first record comes with its term, after the record that it has
// seen.
func TestLookScriptWritesTheFirstRecord(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t)
		prepare := func(fence, after, seq int64, data string) contract.Seen {
			term := contract.Term{Name: "a", Fence: fence, TTL: time.Minute, Data: data}
			term.After.Fence, term.After.Seq = after, seq
			return store.Prepare(t.Context(), []contract.Term{term})[0]
		}
		seen := prepare(5, 0, 0, "one\n")
		assert.Equal(t, contract.StatusHeld, seen.Status)
		assert.Equal(t, int64(5), seen.Fence)
		assert.Equal(t, int64(1), seen.Seq)
		assert.Equal(t, "one\n", seen.Data)
		assert.Equal(t, time.Minute, seen.TTL)
		assert.Equal(t, "5 5 1\none\n", s.get(t, recordA))
		s.pttl(t, recordA, minute-5000, minute)
		assert.Equal(t, int64(5), prepare(6, 5, 2, "another has written").Fence)
		assert.Equal(t, "6 5 1\none\n", s.get(t, recordA))
		assert.Equal(t, int64(6), prepare(6, 5, 1, "two").Fence)
		assert.Equal(t, "6 6 1\ntwo", s.get(t, recordA))
		assert.ErrorIs(t, prepare(7, 6, 1, strings.Repeat("x", redisstore.MaxRecord+1)).Err,
			renewer.ErrRejected)
		assert.Equal(t, "6 6 1\ntwo", s.get(t, recordA))
	})
}

func TestWriteScript(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t)
		assert.Equal(t, contract.StatusGone, write(t, store, "a", 5, 1, "x").Status, "no term")
		assert.Zero(t, s.number(t, "DBSIZE"))
		look(t, store, "a", 5, time.Minute)
		assert.Equal(t, contract.StatusGone, write(t, store, "a", 6, 1, "x").Status,
			"an earlier holder's term")
		assert.Equal(t, contract.StatusHeld, write(t, store, "a", 5, 2, "one").Status)
		assert.Equal(t, "5 5 2\none", s.get(t, recordA))
		s.pttl(t, recordA, 60*minute-5000, 60*minute)
		s.ok(t, "PEXPIRE", recordA, "60000")
		assert.Equal(t, contract.StatusHeld, write(t, store, "a", 5, 2, "one").Status,
			"again, and its time anew")
		s.pttl(t, recordA, 60*minute-5000, 60*minute)
		assert.Equal(t, contract.StatusBehind, write(t, store, "a", 5, 2, "two").Status)
		assert.Equal(t, contract.StatusBehind, write(t, store, "a", 5, 1, "one").Status)
		assert.Equal(t, contract.StatusTaken, write(t, store, "a", 4, 9, "late").Status)
		assert.Equal(t, "5 5 2\none", s.get(t, recordA))
		s.ok(t, "SET", recordA, "6 5 7\none", "PX", "60000")
		assert.Equal(t, contract.StatusHeld, write(t, store, "a", 6, 1, "").Status,
			"the numbers are each holder's own")
		assert.Equal(t, "6 6 1\n", s.get(t, recordA))
		assert.Equal(t, int64(1), s.number(t, "DBSIZE"))

		t.Log("an erasure leaves nothing, unless the term is another's")
		erase := func(fence, seq int64) contract.Status {
			return store.Write(t.Context(),
				[]contract.Record{{Name: "a", Fence: fence, Seq: seq, Erase: true}})[0].Status
		}
		assert.Equal(t, contract.StatusTaken, erase(5, 2))
		assert.Equal(t, contract.StatusGone, erase(7, 2))
		assert.Equal(t, contract.StatusBehind, erase(6, 1))
		assert.Equal(t, "6 6 1\n", s.get(t, recordA))
		assert.Equal(t, contract.StatusHeld, erase(6, 2))
		assert.Zero(t, s.number(t, "DBSIZE"))
		assert.Equal(t, contract.StatusGone, erase(6, 2))
	})
}

// What another program has put there is an error, and stays as it is.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t)
		refused := func(err error, says string) {
			t.Helper()
			require.ErrorIs(t, err, renewer.ErrRejected)
			require.ErrorContains(t, err, says)
		}
		for _, value := range []string{
			"", "x", "1 2\nx", "1 2 3", "-1 2 3\n", "1 2 x\n",
			"12345678901234567 1 1\n", "1 12345678901234567 1\n", "1 1 12345678901234567\n",
		} {
			s.ok(t, "SET", recordA, value, "PX", "60000")
			refused(look(t, store, "a", 0, 0).Err, recordA+" is damaged")
			refused(look(t, store, "a", 9, time.Hour).Err, recordA+" is damaged")
			refused(write(t, store, "a", 9, 1, "x").Err, recordA+" is damaged")
			assert.Equal(t, value, s.get(t, recordA))
		}
		s.ok(t, "DEL", recordA)
		s.ok(t, "RPUSH", recordA, "x")
		refused(look(t, store, "a", 9, time.Hour).Err, "WRONGTYPE")
		refused(write(t, store, "a", 9, 1, "x").Err, "WRONGTYPE")
		assert.Equal(t, int64(1), s.number(t, "LLEN", recordA))
	})
}

func TestRecordScriptsForgotten(t *testing.T) {
	t.Parallel()
	withRedis(t, func(t *testing.T, s server) {
		store := s.store(t)
		for fence := range int64(3) {
			s.ok(t, "SCRIPT", "FLUSH")
			assert.NoError(t, look(t, store, "a", fence+1, time.Hour).Err)
			s.ok(t, "SCRIPT", "FLUSH")
			assert.Equal(t, contract.Answer{Status: contract.StatusHeld},
				write(t, store, "a", fence+1, 1, "x"))
		}
	})
}

func TestRecordsNeedATTL(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	seen := store.Prepare(t.Context(),
		[]contract.Term{
			{Name: "a", Fence: 1, TTL: time.Millisecond - 1},
			{Name: "b", Fence: 1, TTL: time.Minute},
		})
	require.ErrorIs(t, seen[0].Err, renewer.ErrConfig)
	assert.Equal(t, contract.StatusHeld, seen[1].Status)
	assert.NoError(t, seen[1].Err)
	answers := store.Write(t.Context(),
		[]contract.Record{
			{Name: "b", Fence: 1, Seq: 1, TTL: -time.Hour},
			{Name: "b", Fence: 1, Seq: 2, TTL: time.Minute},
		})
	require.ErrorIs(t, answers[0].Err, renewer.ErrConfig)
	assert.Equal(t, contract.Answer{Status: contract.StatusHeld}, answers[1])
	assert.Equal(t, int64(1), s.number(t, "DBSIZE"))
}

// All of a lock's keys share a slot, or a cluster could not tell them to one
// server.
func TestRecordKeys(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t, redisstore.Prefix("x:"))
	look(t, store, "a{b}%\n", 1, time.Minute)
	assert.Equal(t, int64(1), s.number(t, "EXISTS", "x:{a%7Bb%7D%25%0A}:record"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, store.Read(ctx, []string{"a"})[0].Err, context.Canceled)
}
