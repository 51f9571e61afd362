package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/store"
)

// recordCases are for stores that are a [store.Recorder]; others have nothing
// to prove here.
var recordCases = []testCase{
	{"a record is there for the next holder", recorded(recordSeen)},
	{"preparing begins a term", recorded(terms)},
	{"preparing writes the first record", recorded(firstRecord)},
	{"a late write is refused", recorded(lateWrite)},
	{"a write can be repeated", recorded(repeatedWrite)},
	{"a record lapses, and its term", recorded(recordLapses)},
	{"preparing leaves a record its time", recorded(prepareKeepsTTL)},
	{"a term without a record lapses", recorded(termLapses)},
	{"records of any bytes", recorded(oddRecords)},
	{"records are their names' own", recorded(recordsApart)},
	{"records and leases do not meet", recorded(recordsAndLeases)},
	{"records in batches", recorded(recordBatches)},
	{"records and a context that has ended", recorded(recordsEnded)},
	{"a record that is erased leaves nothing", recorded(erasedRecord)},
	{"one of many writes a term", recorded(oneWriter)},
	{"answers have the store's time", recorded(storeTime)},
}

// recordSuite is a case's suite with its store as a Recorder.
type recordSuite struct {
	*suite

	recorder store.Recorder
}

func recorded(run func(t *testing.T, s *recordSuite)) func(*testing.T, *suite) {
	return func(t *testing.T, s *suite) {
		if r, ok := s.Store.(store.Recorder); ok {
			run(t, &recordSuite{s, r})
		}
	}
}

func (s *recordSuite) prepares(t testing.TB, terms ...store.Term) []store.Seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	seen := s.recorder.Prepare(ctx, terms)
	require.Len(t, seen, len(terms), "one answer an item")
	for i := range seen {
		s.sane(t, terms[i].Name, seen[i])
	}
	return seen
}

func (s *recordSuite) reads(t testing.TB, names ...string) []store.Seen {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	seen := s.recorder.Read(ctx, names)
	require.Len(t, seen, len(names), "one answer an item")
	for i := range seen {
		requireStatus(t, store.StatusHeld, seen[i].Status, "%q", names[i])
		s.sane(t, names[i], seen[i])
	}
	return seen
}

// sane requires what is true of every answer.
func (s *recordSuite) sane(t testing.TB, name string, seen store.Seen) {
	t.Helper()
	require.NoError(t, seen.Err, "%q", name)
	require.Contains(t, []store.Status{store.StatusHeld, store.StatusTaken}, seen.Status,
		"%q", name)
	if seen.Status == store.StatusTaken {
		require.Equal(t, store.Seen{Status: store.StatusTaken}, seen,
			"who is refused sees nothing")
	}
	if seen.Status == store.StatusHeld {
		require.False(t, seen.Now.IsZero(), "%q", name)
	}
	if seen.Fence == 0 {
		want := store.Seen{Status: seen.Status, Now: seen.Now}
		require.Equal(t, want, seen, "there is none")
	} else if !s.Blind {
		require.Positive(t, seen.TTL, "%q", name)
		require.LessOrEqual(t, seen.TTL, long, "%q", name)
	}
}

// prepare prepares to write "name" and requires that it is answered.
func (s *recordSuite) prepare(t testing.TB, fence int64) (by, seq int64, data string) {
	t.Helper()
	seen := s.prepares(t, store.Term{Name: "name", Fence: fence, TTL: long})[0]
	requireStatus(t, store.StatusHeld, seen.Status)
	return seen.Fence, seen.Seq, seen.Data
}

func (s *recordSuite) writes(t testing.TB, records ...store.Record) []store.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), callBy)
	defer cancel()
	answers := s.recorder.Write(ctx, records)
	require.Len(t, answers, len(records), "one answer an item")
	statuses := make([]store.Status, len(answers))
	for i, a := range answers {
		require.NoError(t, a.Err, "%q", records[i].Name)
		require.NotEqual(t, store.StatusUnknown, a.Status, "%q", records[i].Name)
		statuses[i] = a.Status
	}
	return statuses
}

// write writes the record of "name".
func (s *recordSuite) write(
	t testing.TB, fence, seq int64, data string, ttl time.Duration,
) store.Status {
	t.Helper()
	return s.writes(t, store.Record{
		Name: "name", Fence: fence, Seq: seq, Data: data,
		TTL: ttl,
	})[0]
}

// sees requires that a reader sees a record.
func (s *recordSuite) sees(t testing.TB, fence, seq int64, data string) {
	t.Helper()
	seen := s.reads(t, "name")[0]
	assert.Equal(t, fence, seen.Fence)
	assert.Equal(t, seq, seen.Seq)
	assert.Equal(t, data, seen.Data)
}

func recordSeen(t *testing.T, s *recordSuite) {
	s.sees(t, 0, 0, "")
	s.prepare(t, 41)
	s.sees(t, 0, 0, "")
	requireStatus(t, store.StatusHeld, s.write(t, 41, 1, "begun", long))
	s.sees(t, 41, 1, "begun")
	requireStatus(t, store.StatusHeld, s.write(t, 41, 5, "done", long))
	s.sees(t, 41, 5, "done")
	fence, seq, data := s.prepare(t, 50)
	assert.Equal(t, []any{int64(41), int64(5), "done"}, []any{fence, seq, data},
		"what the former holder wrote")
	s.sees(t, 41, 5, "done")
	requireStatus(t, store.StatusHeld, s.write(t, 50, 1, "", long))
	s.sees(t, 50, 1, "")
}

func terms(t *testing.T, s *recordSuite) {
	requireStatus(t, store.StatusGone, s.write(t, 7, 1, "x", long), "not prepared, no term")
	s.prepare(t, 7)
	s.prepare(t, 7)
	requireStatus(t, store.StatusHeld, s.write(t, 7, 1, "x", long))
	s.prepare(t, 7)
	requireStatus(t, store.StatusHeld, s.write(t, 7, 2, "y", long))
	requireStatus(t, store.StatusGone, s.write(t, 8, 1, "z", long),
		"another holder's term is none")
	s.sees(t, 7, 2, "y")
	s.prepare(t, 9)
	requireStatus(t, store.StatusTaken,
		s.prepares(t, store.Term{Name: "name", Fence: 8, TTL: long})[0].Status)
	requireStatus(t, store.StatusHeld, s.write(t, 9, 1, "z", long),
		"one that was refused has changed nothing")
}

// lateWrite is what it is all for.
func lateWrite(t *testing.T, s *recordSuite) {
	s.prepare(t, 100)
	requireStatus(t, store.StatusHeld, s.write(t, 100, 1, "first begins", long))
	s.prepare(t, 101)
	requireStatus(t, store.StatusTaken, s.write(t, 100, 2, "first is done", long),
		"though the second has not written yet")
	s.sees(t, 100, 1, "first begins")
	requireStatus(t, store.StatusHeld, s.write(t, 101, 1, "second begins", long))
	requireStatus(t, store.StatusTaken, s.write(t, 100, 1, "first begins", long),
		"not even what had been written")
	requireStatus(t, store.StatusTaken, s.write(t, 100, 3, "first is done", long))
	requireStatus(t, store.StatusTaken,
		s.prepares(t, store.Term{Name: "name", Fence: 100, TTL: long})[0].Status)
	s.sees(t, 101, 1, "second begins")
}

func repeatedWrite(t *testing.T, s *recordSuite) {
	const top = int64(1)<<52 - 1
	s.prepare(t, top)
	for range 3 {
		requireStatus(t, store.StatusHeld, s.write(t, top, 2, "a", long))
	}
	requireStatus(t, store.StatusBehind, s.write(t, top, 2, "b", long),
		"the same number, other data")
	requireStatus(t, store.StatusBehind, s.write(t, top, 1, "a", long), "a lower number")
	s.sees(t, top, 2, "a")
	requireStatus(t, store.StatusHeld, s.write(t, top, top, "b", long))
	requireStatus(t, store.StatusBehind, s.write(t, top, 3, "b", long))
	s.sees(t, top, top, "b")
}

func recordLapses(t *testing.T, s *recordSuite) {
	s.prepare(t, 5)
	requireStatus(t, store.StatusHeld, s.write(t, 5, 1, "a", s.short))
	s.sees(t, 5, 1, "a")
	s.wait(t, s.short+20*time.Millisecond)
	s.sees(t, 0, 0, "")
	requireStatus(t, store.StatusGone, s.write(t, 5, 2, "late", long),
		"a late marker can't bring it back")
	s.sees(t, 0, 0, "")
	s.prepare(t, 6)
	requireStatus(t, store.StatusHeld, s.write(t, 6, 1, "b", long))
	s.wait(t, s.short+20*time.Millisecond)
	s.sees(t, 6, 1, "b")
}

// prepareKeepsTTL has later holders prepare, who write nothing.
func prepareKeepsTTL(t *testing.T, s *recordSuite) {
	s.prepare(t, 5)
	requireStatus(t, store.StatusHeld, s.write(t, 5, 1, "a", s.short))
	s.prepare(t, 6)
	s.sees(t, 5, 1, "a")
	assert.LessOrEqual(t, s.prepares(t, store.Term{Name: "name", Fence: 6, TTL: long})[0].TTL,
		s.short+s.slack)
	s.wait(t, s.short+20*time.Millisecond)
	s.sees(t, 0, 0, "")

	s.prepare(t, 7)
	requireStatus(t, store.StatusHeld, s.write(t, 7, 1, "b", long))
	s.prepares(t, store.Term{Name: "name", Fence: 8, TTL: time.Millisecond})
	s.wait(t, 20*time.Millisecond)
	s.sees(t, 7, 1, "b")
}

func termLapses(t *testing.T, s *recordSuite) {
	s.prepares(t, store.Term{Name: "name", Fence: 5, TTL: 20 * time.Millisecond})
	s.wait(t, 40*time.Millisecond)
	requireStatus(t, store.StatusGone, s.write(t, 5, 1, "a", long))
	s.prepare(t, 4)
	requireStatus(t, store.StatusHeld, s.write(t, 4, 1, "a", long))
}

func oddRecords(t *testing.T, s *recordSuite) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	seq := int64(0)
	s.prepare(t, 1)
	for _, data := range []string{
		"", "\n", "1 2 3\n", "9 9 9\nx\n", "\x00", "nil", string(all),
		strings.Repeat("é", 100_000),
	} {
		seq++
		requireStatus(t, store.StatusHeld, s.write(t, 1, seq, data, long))
		s.sees(t, 1, seq, data)
	}
	_, _, data := s.prepare(t, 2)
	assert.Len(t, data, 200_000, "Prepare rewrites nothing")
	s.sees(t, 1, seq, data)
}

func recordsApart(t *testing.T, s *recordSuite) {
	names := []string{
		"a", "A", "a:record", "a:fence", "{a}", "%", "\x00", "日本",
		strings.Repeat("n", store.MaxName),
	}
	for i, name := range names {
		s.prepares(t, store.Term{Name: name, Fence: int64(i + 1), TTL: long})
		assertStatuses(t, []store.Status{store.StatusHeld},
			s.writes(t, store.Record{
				Name: name, Fence: int64(i + 1), Seq: 1, Data: name,
				TTL: long,
			}))
	}
	for i, name := range names {
		got := s.reads(t, name)[0]
		got.TTL, got.Now = 0, time.Time{}
		assert.Equal(t, store.Seen{
			Status: store.StatusHeld, Fence: int64(i + 1), Seq: 1,
			Data: name,
		},
			got)
	}
}

func recordsAndLeases(t *testing.T, s *recordSuite) {
	a, b := newOwner(), newOwner()
	first := s.own(t, "name", a, long)
	s.prepare(t, first)
	requireStatus(t, store.StatusHeld, s.write(t, first, 1, "a", long))
	s.refused(t, "name", b)
	requireStatus(t, store.StatusHeld, s.renew(t, "name", a, long))
	requireStatus(t, store.StatusHeld, s.release(t, "name", a))
	s.sees(t, first, 1, "a")
	requireStatus(t, store.StatusHeld, s.write(t, first, 2, "done", long),
		"no later holder has prepared: its last write may be late")
	second := s.obtain(t, "name", b)
	require.Greater(t, second, first)
	by, _, data := s.prepare(t, second)
	assert.Equal(t, first, by)
	assert.Equal(t, "done", data)
	requireStatus(t, store.StatusTaken, s.write(t, first, 3, "late", long))
}

// firstRecord has holders prepare with a record, which is written after the one
// that they have seen and after no other.
func firstRecord(t *testing.T, s *recordSuite) {
	first := func(fence, after, seq int64, data string) (by, number int64, shown string) {
		t.Helper()
		term := store.Term{Name: "name", Fence: fence, TTL: long, Data: data}
		term.After.Fence, term.After.Seq = after, seq
		seen := s.prepares(t, term)[0]
		requireStatus(t, store.StatusHeld, seen.Status)
		return seen.Fence, seen.Seq, seen.Data
	}
	expect := func(fence, seq int64, data string) func(int64, int64, string) {
		return func(by, number int64, shown string) {
			t.Helper()
			require.Equal(t, fence, by)
			require.Equal(t, seq, number)
			require.Equal(t, data, shown)
			s.sees(t, fence, seq, data)
		}
	}
	expect(0, 0, "")(first(5, 4, 1, "after what is not there"))
	expect(5, 1, "one")(first(5, 0, 0, "one"))
	expect(5, 1, "one")(first(5, 0, 0, "one")) // its answer was lost
	expect(5, 1, "one")(first(5, 5, 1, "after itself"))
	expect(5, 1, "one")(first(6, 0, 0, "after none"))
	expect(5, 1, "one")(first(6, 5, 2, "after a later one"))
	expect(5, 1, "one")(first(6, 4, 1, "after another's"))
	requireStatus(t, store.StatusTaken, s.write(t, 5, 2, "late", long))
	expect(6, 1, "two")(first(6, 5, 1, "two"))
	requireStatus(t, store.StatusHeld, s.write(t, 6, 2, "three", long))
	expect(6, 2, "three")(first(6, 5, 1, "two")) // repeated late
	seen := s.prepares(t, store.Term{Name: "name", Fence: 5, TTL: long, Data: "late"})[0]
	requireStatus(t, store.StatusTaken, seen.Status)
	s.sees(t, 6, 2, "three")
}

func recordBatches(t *testing.T, s *recordSuite) {
	assert.Empty(t, s.recorder.Prepare(t.Context(), nil))
	assert.Empty(t, s.recorder.Read(t.Context(), nil))
	assert.Empty(t, s.recorder.Write(t.Context(), nil))
	const many = 250
	name := func(i int) string { return fmt.Sprint("name ", i) }
	var terms []store.Term
	var again []string
	var records []store.Record
	for i := range many {
		terms = append(terms, store.Term{Name: name(i), Fence: int64(10 + i), TTL: long})
		again = append(again, name(i))
		records = append(records,
			store.Record{
				Name: name(i), Fence: int64(10 + i%100), Seq: 1, Data: name(i),
				TTL: long,
			})
	}
	s.prepares(t, terms...)
	for i, status := range s.writes(t, records...) {
		want := store.StatusTaken
		if i < 100 {
			want = store.StatusHeld
		}
		requireStatus(t, want, status, "item %d", i)
	}
	for i, seen := range s.reads(t, again...) {
		want := store.Seen{Status: store.StatusHeld}
		if i < 100 {
			want = store.Seen{
				Status: store.StatusHeld, Fence: int64(10 + i), Seq: 1,
				Data: name(i),
			}
		}
		seen.TTL, seen.Now = 0, time.Time{}
		require.Equal(t, want, seen, "item %d", i)
	}
}

func recordsEnded(t *testing.T, s *recordSuite) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	seen := s.recorder.Prepare(ctx, []store.Term{{Name: "name", Fence: 1, TTL: long}})
	seen = append(seen, s.recorder.Read(ctx, []string{"name", "other"})...)
	require.Len(t, seen, 3)
	for _, a := range seen {
		assertStatus(t, store.StatusUnknown, a.Status)
		require.ErrorIs(t, a.Err, context.Canceled)
	}
	answers := s.recorder.Write(ctx,
		[]store.Record{
			{Name: "name", Fence: 1, Seq: 1, TTL: long},
			{Name: "other", Fence: 1, Seq: 1, TTL: long},
		})
	require.Len(t, answers, 2)
	for _, a := range answers {
		assertStatus(t, store.StatusUnknown, a.Status)
		require.ErrorIs(t, a.Err, context.Canceled)
	}
	s.sees(t, 0, 0, "")
}

// oneWriter has many holders prepare and write at once: whatever the
// last one saw is what is there unless that holder has written.
func oneWriter(t *testing.T, s *recordSuite) {
	const many = 24
	var mu sync.Mutex
	certain, open := make(map[int64]bool), make(map[int64]bool) // who has written, and who may have
	var wg sync.WaitGroup
	for fence := int64(1); fence <= many; fence++ {
		wg.Go(func() {
			seen := s.prepares(t, store.Term{Name: "name", Fence: fence, TTL: long})[0]
			if seen.Status == store.StatusTaken {
				return
			}
			seq := int64(1)
			if seen.Fence == fence { // a store over several has written anew what too few had
				seq = seen.Seq + 1
			}
			assert.LessOrEqual(t, seen.Fence, fence)
			r := store.Record{
				Name: "name", Fence: fence, Seq: seq, Data: fmt.Sprint(fence),
				TTL: long,
			}
			ctx, cancel := context.WithTimeout(t.Context(), callBy)
			defer cancel()
			status := s.recorder.Write(ctx, []store.Record{r})[0].Status
			mu.Lock()
			defer mu.Unlock()
			certain[fence] = status == store.StatusHeld
			open[fence] = status == store.StatusUnknown
		})
	}
	wg.Wait()
	s.prepare(t, many) // so that what is open is decided
	data := s.reads(t, "name")[0].Data
	if certain[many] {
		assert.Equal(t, fmt.Sprint(many), data)
	} else {
		assert.True(t, open[many], "no token is above the highest")
	}
}
