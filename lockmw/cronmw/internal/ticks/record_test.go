package ticks_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/lockmw/internal/option"
	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	want := ticks.Record{
		Version: 2, Due: noon, Next: noon.Add(time.Hour + 1), Ended: noon.Add(2), Attempt: 2,
		Node: "a", PID: 7,
	}
	got, err := ticks.DecodeRecord(want.Encode())
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, contract.Holder{Node: "a", PID: 7}, got.Holder())
	for rec, unended := range map[ticks.Record]bool{
		{}: false, want: false, {Due: noon}: true, {Due: noon, Ended: noon, Cut: true}: true,
	} {
		assert.Equal(t, unended, rec.Unended())
	}

	const due = `"due":"2026-03-01T12:00:00Z"`
	for _, text := range []string{
		"", "x", "{}", `{"version":1,"attempt":1,` + due + `}`, `{"version":2,"attempt":1}`,
		`{"version":2,` + due + `}`,
		`{"version":2,"attempt":1,"pid":-1,` + due + `}`,
		`{"version":2,"attempt":1,"node":"` + strings.Repeat("n", 65) + `",` + due + `}`,
		strings.Repeat(" ", 5000) + want.Encode(),
	} {
		_, err := ticks.DecodeRecord(text)
		require.ErrorIs(t, err, renewer.ErrRejected, text)
	}
}

// FuzzRecord reads what any program may have written: no panic, and what is
// believed can be written again as it is.
func FuzzRecord(f *testing.F) {
	f.Add(ticks.Record{Due: noon, Attempt: 1, Node: "a"}.Encode())
	f.Add(`{"version":2,"attempt":1,"due":"9999-12-31T23:59:59Z"}`)
	f.Add("{")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ticks.DecodeRecord(text)
		if err != nil {
			require.Zero(t, r)
			return
		}
		again, err := ticks.DecodeRecord(r.Encode())
		require.NoError(t, err)
		require.True(t, again.Due.Equal(r.Due))
		require.Equal(t, again.Holder(), r.Holder())
	})
}

// inBubble runs f on the book of a job that ticks every hour.
func inBubble(t *testing.T, f func(t *testing.T, store *script.Store, b *ticks.Book)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := script.New()
		k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL})
		require.NoError(t, err)
		b := ticks.NewBook(k, "job")
		b.Schedule = ticks.Every(time.Hour)
		require.NoError(t, b.Check())
		f(t, store, b)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// A record that is damaged runs nothing, and says what to do. The lock is free.
func TestADamagedRecord(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *script.Store, b *ticks.Book) {
		store.PutRecord("cron:job", "7")
		_, err := b.Look(t.Context(), time.Now().Add(time.Hour))
		require.ErrorIs(t, err, renewer.ErrRejected)
		require.ErrorContains(t, err, "delete it")
		_, err = b.Take(t.Context(), ticks.Record{}, time.Now(), time.Now().Add(time.Minute))
		require.ErrorIs(t, err, renewer.ErrRejected)
		_, exit, err := b.Lock(t.Context(), option.Settings{})
		require.NoError(t, err)
		require.NoError(t, exit(nil))
	})
}

// The answer to the write that begins the tick is lost: it is written again,
// and the tick runs.
func TestALostAnswerToTheBeginning(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, store *script.Store, b *ticks.Book) {
		store.Script(script.Write, script.Pass().Broken(assert.AnError))
		store.Script(script.Prepare, script.Fail(assert.AnError))
		due, until := time.Now(), time.Now().Add(time.Minute)
		run, err := b.Take(t.Context(), ticks.Record{}, due, until)
		require.NoError(t, err)
		require.NoError(t, run.End(nil))
		rec, err := b.Look(t.Context(), time.Time{})
		require.NoError(t, err)
		assert.False(t, rec.Unended())
		_, err = b.Take(t.Context(), ticks.Record{}, due, until)
		require.ErrorIs(t, err, renewer.ErrBusy, "it is taken, though this node thought otherwise")
	})
}

// A record outlives the grace of its tick, and the time to the next one.
func TestRecordsAreKept(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for schedule, want := range map[ticks.Every]time.Duration{
		ticks.Every(time.Hour): 7 * day, ticks.Every(30 * day): 120 * day,
	} {
		inBubble(t, func(t *testing.T, store *script.Store, b *ticks.Book) {
			b.Schedule = schedule
			due := time.Now().Truncate(time.Duration(schedule))
			run, err := b.Take(t.Context(), ticks.Record{}, due, time.Now().Add(time.Minute))
			require.NoError(t, err)
			require.NoError(t, run.End(nil))
			<-time.After(want - time.Second)
			require.NotEmpty(t, store.RecordOf("cron:job"))
			<-time.After(time.Second)
			require.Empty(t, store.RecordOf("cron:job"))
		})
	}
}
