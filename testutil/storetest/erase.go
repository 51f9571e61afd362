package storetest

import (
	"testing"

	"github.com/lockbeat/lockbeat/renewer"
)

func erasedRecord(t *testing.T, s *recordSuite) {
	erase := func(fence, seq int64) renewer.Status {
		return s.writes(t, renewer.Record{
			Name: "name", Fence: fence, Seq: seq, Data: "ignored",
			Erase: true,
		})[0]
	}
	requireStatus(t, renewer.StatusGone, erase(5, 1), "not prepared, no term")
	s.prepare(t, 5)
	requireStatus(t, renewer.StatusHeld, erase(5, 1), "a term in which nothing was written")
	requireStatus(t, renewer.StatusGone, s.write(t, 5, 2, "a", long), "it has ended")
	requireStatus(t, renewer.StatusGone, erase(5, 1), "again")

	s.prepare(t, 6)
	requireStatus(t, renewer.StatusHeld, s.write(t, 6, 2, "a", long))
	requireStatus(t, renewer.StatusBehind, erase(6, 1), "late")
	requireStatus(t, renewer.StatusBehind, erase(6, 2), "the number of what was written")
	s.prepare(t, 7)
	requireStatus(t, renewer.StatusTaken, erase(6, 3), "another's term")
	s.sees(t, 6, 2, "a")
	requireStatus(t, renewer.StatusHeld, erase(7, 1))
	s.sees(t, 0, 0, "")
	s.prepare(t, 4)
	requireStatus(t, renewer.StatusHeld, s.write(t, 4, 1, "b", long),
		"as if no holder had ever prepared")
	s.sees(t, 4, 1, "b")
}
