package script_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func look(ctx context.Context, s *script.Store, fence int64) store.Seen {
	if fence == 0 {
		return s.Read(ctx, []string{"n"})[0]
	}
	return s.Prepare(ctx, []store.Term{{Name: "n", Fence: fence, TTL: ttl}})[0]
}

func write(ctx context.Context, s *script.Store, fence, seq int64, data string) store.Answer {
	return s.Write(ctx, []store.Record{
		{Name: "n", Fence: fence, Seq: seq, Data: data, TTL: ttl},
	})[0]
}

func TestScriptedPreparing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *script.Store) {
		s.Script(script.Prepare, script.Fail(errDown), script.Pass().Broken(errDown),
			script.Taken(store.Holder{}, 0), script.Pass())
		assert.Equal(t, store.Seen{Err: errDown}, look(t.Context(), s, 5))
		assert.Equal(t, store.StatusGone, write(t.Context(), s, 5, 1, "x").Status,
			"it had no effect")
		assert.Equal(t, store.Seen{Err: errDown}, look(t.Context(), s, 5))
		assert.Equal(t, store.StatusHeld, write(t.Context(), s, 5, 1, "x").Status, "it had")
		assert.Equal(t, store.Seen{Status: store.StatusTaken}, look(t.Context(), s, 5))
		assert.Equal(t, store.Seen{Status: store.StatusTaken}, look(t.Context(), s, 5),
			"which is believed")
		assert.Equal(t, store.Seen{
			Status: store.StatusHeld, Fence: 5, Seq: 1, Data: "x",
			TTL: ttl, Now: time.Now(),
		},
			look(t.Context(), s, 6))
		require.Len(t, s.Calls(script.Prepare), 5)
		assert.Equal(t, int64(6), s.Calls(script.Prepare)[4].Terms[0].Fence)
	})
}

func TestScriptedWrites(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *script.Store) {
		look(t.Context(), s, 5)
		s.Script(script.Write, script.Fail(errDown), script.Pass().Broken(errDown), script.Gone(),
			script.Pass(), script.Taken(store.Holder{}, 0))
		assert.Equal(t, store.Answer{Err: errDown}, write(t.Context(), s, 5, 1, "x"))
		assert.Empty(t, s.RecordOf("n"), "it had no effect")
		assert.Equal(t, store.Answer{Err: errDown}, write(t.Context(), s, 5, 1, "y"))
		assert.Equal(t, "y", s.RecordOf("n"), "it had")
		assert.Equal(t, store.StatusGone, write(t.Context(), s, 5, 2, "z").Status)
		assert.Empty(t, s.RecordOf("n"))
		assert.Equal(t, store.StatusGone, write(t.Context(), s, 5, 3, "z").Status,
			"which is believed")
		look(t.Context(), s, 5)
		assert.Equal(t, store.StatusTaken, write(t.Context(), s, 5, 4, "z").Status)
		assert.Equal(t, store.StatusTaken, write(t.Context(), s, 5, 5, "z").Status,
			"which is believed")
		require.Len(t, s.Calls(script.Write), 6)
		assert.Equal(t, "x", s.Calls(script.Write)[0].Records[0].Data)

		s.PutRecord("n", "theirs")
		assert.Equal(t, store.Seen{
			Status: store.StatusHeld, Fence: 1, Seq: 1, Data: "theirs",
			TTL: time.Minute, Now: time.Now(),
		}, look(t.Context(), s, 0))
		<-time.After(time.Minute)
		assert.Empty(t, s.RecordOf("n"))
	})
}

func TestSlowAndLateRecords(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T, s *script.Store) {
		s.Script(script.Prepare, script.Pass().Slow(time.Second).Late(2*time.Second), script.Hang())
		s.Script(script.Write, script.Pass().Lost())
		assert.Equal(t, 3*time.Second, took(func() {
			assert.Equal(t, store.StatusHeld, look(t.Context(), s, 5).Status)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.Equal(t, time.Second, took(func() {
			assert.Equal(t, context.DeadlineExceeded, write(ctx, s, 5, 1, "x").Err)
		}))
		assert.Equal(t, "x", s.RecordOf("n"))
		assert.Equal(t, context.DeadlineExceeded, look(ctx, s, 5).Err)
	})
}
