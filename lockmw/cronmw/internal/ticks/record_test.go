package ticks_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/internal/ticks"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	want := ticks.Record{
		Version: 1, Known: noon, Due: noon.Add(time.Hour), Next: noon.Add(2*time.Hour + 1),
		Begun: noon.Add(time.Hour + 1), Ended: noon.Add(time.Hour + 2), Attempt: 2,
		Outcome: ticks.Failed, Schedule: "0123456789abcdef", Node: "a", PID: 7,
	}
	got, err := ticks.DecodeRecord(want.Encode())
	require.NoError(t, err)
	assert.Equal(t, want, got)
	assert.Equal(t, renewer.Holder{Node: "a", PID: 7}, got.Holder())
	assert.False(t, got.Unended())
	assert.Equal(t, got.Ended, got.Free())
	got.Outcome = ticks.Cut
	assert.True(t, got.Unended())
	assert.Equal(t, got.Ended, got.Free())

	got.Ended = time.Time{}
	assert.True(t, got.Unended())
	assert.Equal(t, got.Due, got.Free())

	for _, text := range []string{
		"", "x", "{}", `{"version":2,"known":"2026-03-01T12:00:00Z"}`, `{"version":1}`,
		`{"version":1,"known":"2026-03-01T12:00:00Z","attempt":-1}`,
		`{"version":1,"known":"2026-03-01T12:00:00Z","pid":-1}`,
		`{"version":1,"known":"2026-03-01T12:00:00Z","node":"` + strings.Repeat("n", 65) + `"}`,
		`{"version":1,"known":"2026-03-01T12:00:00Z","schedule":"` + strings.Repeat("f", 65) + `"}`,
		strings.Repeat(" ", 5000) + want.Encode(),
	} {
		_, err := ticks.DecodeRecord(text)
		require.ErrorIs(t, err, renewer.ErrRejected, text)
	}
}

// A record outlives the grace of its tick, and the time to the next one.
func TestKeep(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	assert.Equal(t, 7*day, ticks.Record{}.Keep(time.Minute))
	assert.Equal(t, 40*day, ticks.Record{}.Keep(10*day))
	assert.Equal(t, 120*day, ticks.Record{Due: noon, Next: noon.Add(30 * day)}.Keep(0))
	assert.Equal(t, 120*day, ticks.Record{Known: noon, Next: noon.Add(30 * day)}.Keep(0))
	assert.Equal(t, 7*day, ticks.Record{Due: noon, Next: noon.Add(time.Hour)}.Keep(0))
}

// FuzzRecord reads what any program may have written: no panic, and what is believed can be written
// again as it is.
func FuzzRecord(f *testing.F) {
	f.Add(ticks.Record{Known: noon, Due: noon, Begun: noon, Attempt: 1, Node: "a"}.Encode())
	f.Add(`{"version":1,"known":"2026-03-01T12:00:00Z","due":"9999-12-31T23:59:59Z"}`)
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
		require.True(t, again.Free().Equal(r.Free()))
		require.Equal(t, again.Holder(), r.Holder())
	})
}

// A record that is damaged runs nothing, and says what to do.
func TestADamagedRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := script.New()
		k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL})
		require.NoError(t, err)
		store.PutRecord("cron:job", "7")
		b := ticks.NewBook(k, "cron", "job")
		_, err = b.Look(t.Context(), time.Now().Add(time.Hour))
		require.ErrorIs(t, err, renewer.ErrRejected)
		require.ErrorContains(t, err, "delete it")
		_, err = b.Take(t.Context(), ticks.Record{}, ticks.Tick{
			Due: time.Now(), Until: time.Now().Add(time.Minute),
		})
		require.ErrorIs(t, err, renewer.ErrRejected)
		lease, err := k.TryAcquire(t.Context(), "cron:job")
		require.NoError(t, err, "the lock is free")
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

// The answer to the write that begins the tick is lost: it is written again, and the tick runs.
func TestALostAnswerToTheBeginning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := script.New()
		k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL})
		require.NoError(t, err)
		store.Script(script.Write, script.Pass().Broken(assert.AnError))
		store.Script(script.Prepare, script.Fail(assert.AnError))
		b := ticks.NewBook(k, "cron", "job")
		tick := ticks.Tick{Due: time.Now(), Until: time.Now().Add(time.Minute)}
		run, err := b.Take(t.Context(), ticks.Record{}, tick)
		require.NoError(t, err)
		require.NoError(t, run.End(nil))
		rec, err := b.Look(t.Context(), time.Time{})
		require.NoError(t, err)
		assert.Equal(t, ticks.Succeeded, rec.Outcome)
		_, err = b.Take(t.Context(), ticks.Record{}, tick)
		require.ErrorIs(t, err, renewer.ErrHeld, "it is taken, though this node thought otherwise")
		require.NoError(t, k.Shutdown(t.Context()))
	})
}
