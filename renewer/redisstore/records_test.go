package redisstore_test

import (
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

// What is on the server of a record: by what key, for how long, and to the last digit. It
// lives for as long as its last write says, and a term without one as its first holder
// said: later holders who only look change neither.
func TestRecordsOnTheServer(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	look(t, store, "a", 0, 0)
	assert.Zero(t, s.number(t, "DBSIZE"), "only looking: nothing is made")

	look(t, store, "a", 5, time.Minute)
	look(t, store, "a", 6, time.Hour)
	s.pttl(t, recordA, minute-5000, minute)

	for range 2 { // the answer to the first may be lost
		s.ok(t, "PEXPIRE", recordA, "60000")
		assert.Equal(t, contract.StatusHeld, write(t, store, "a", 6, 2, "one").Status)
		s.pttl(t, recordA, 60*minute-5000, 60*minute)
	}
	look(t, store, "a", 1<<53-1, time.Minute)
	assert.Equal(t, "9007199254740991 6 2\none", s.get(t, recordA))
	s.pttl(t, recordA, 60*minute-5000, 60*minute)

	t.Log("an empty one is not erased by the number that it was written by")
	erased := contract.Record{Name: "a", Fence: 1<<53 - 1, Seq: 1, Erase: true}
	assert.Equal(t, contract.StatusHeld, write(t, store, "a", erased.Fence, 1, "").Status)
	assert.Equal(t, contract.StatusBehind,
		store.Write(t.Context(), []contract.Record{erased})[0].Status)

	t.Log("one that another program has made to live for ever is given an end by who looks next")
	s.ok(t, "SET", recordA, "7 3 1\nx")
	look(t, store, "a", 8, time.Minute)
	s.pttl(t, recordA, minute-5000, minute)

	look(t, store, "a{b}%\n", 1, time.Minute)
	assert.Equal(t, int64(1), s.number(t, "EXISTS", "lockbeat:{a%7Bb%7D%25%0A}:record"))
}

// What another program has put there is an error, and stays as it is.
func TestDamagedRecords(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
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
