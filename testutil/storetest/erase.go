package storetest

import (
	"testing"

	"github.com/lockbeat/lockbeat/renewer/store"
)

func erasedRecord(t *testing.T, s *recordSuite) {
	erase := func(fence, seq int64) store.Status {
		return s.writes(t, store.Record{
			Name: "name", Fence: fence, Seq: seq, Data: "ignored",
			Erase: true,
		})[0]
	}
	requireStatus(t, store.StatusGone, erase(5, 1), "not prepared, no term")
	s.prepare(t, 5)
	requireStatus(t, store.StatusHeld, erase(5, 1), "a term in which nothing was written")
	requireStatus(t, store.StatusGone, s.write(t, 5, 2, "a", long), "it has ended")
	requireStatus(t, store.StatusGone, erase(5, 1), "again")

	s.prepare(t, 6)
	requireStatus(t, store.StatusHeld, s.write(t, 6, 2, "a", long))
	requireStatus(t, store.StatusBehind, erase(6, 1), "late")
	requireStatus(t, store.StatusBehind, erase(6, 2), "the number of what was written")
	s.prepare(t, 7)
	requireStatus(t, store.StatusTaken, erase(6, 3), "another's term")
	s.sees(t, 6, 2, "a")
	requireStatus(t, store.StatusHeld, erase(7, 1))
	s.sees(t, 0, 0, "")
	s.prepare(t, 4)
	requireStatus(t, store.StatusHeld, s.write(t, 4, 1, "b", long),
		"as if no holder had ever prepared")
	s.sees(t, 4, 1, "b")
}
