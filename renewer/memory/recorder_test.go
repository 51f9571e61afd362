package memory_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/renewer/store"
)

func TestRecordsLapseAtTheInstant(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(memory.Engine)
		s.Prepare(t.Context(), []store.Term{{Name: "n", Fence: 1, TTL: time.Minute}})
		s.Write(t.Context(), []store.Record{
			{Name: "n", Fence: 1, Seq: 1, Data: "x", TTL: time.Second},
		})
		<-time.After(time.Second - 1)
		assert.Equal(t, "x", s.Read(t.Context(), []string{"n"})[0].Data)
		<-time.After(1)
		assert.Equal(t, store.Seen{Status: store.StatusHeld, Now: time.Now()},
			s.Read(t.Context(), []string{"n"})[0])
	})
}

func TestLapsedRecordsAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := new(memory.Engine)
		for i := range 100 {
			for j := range 100 {
				s.Prepare(t.Context(),
					[]store.Term{{Name: fmt.Sprint(i, "/", j), Fence: 1, TTL: time.Second}})
				s.Read(t.Context(), []string{fmt.Sprint(i, "/", j, " only looked at")})
			}
			<-time.After(time.Second)
			require.LessOrEqual(t, memory.Recorded(s), 201, "at most twice the 100 that live")
		}
	})
}

func TestRecordsNeedATTL(t *testing.T) {
	t.Parallel()
	s := new(memory.Engine)
	for _, ttl := range []time.Duration{-1, 0, time.Millisecond - 1} {
		require.ErrorIs(t, s.Prepare(t.Context(),
			[]store.Term{{Name: "n", Fence: 1, TTL: ttl}})[0].Err, renewer.ErrConfig)
		require.ErrorIs(t, s.Write(t.Context(),
			[]store.Record{{Name: "n", Fence: 1, Seq: 1, TTL: ttl}})[0].Err, renewer.ErrConfig)
	}
	assert.Zero(t, memory.Recorded(s))
}
