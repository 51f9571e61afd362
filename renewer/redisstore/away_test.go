package redisstore_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// While the server is away callers are refused at once, and when it is back the
// keeper hears of it, though no caller asks and nothing is held. A server that
// can only be read is away.
func TestAwayAndBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stop, resume func(*testing.T, *redistest.Server)
	}{
		"frozen": {
			func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Stop()) },
			func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Cont()) },
		},
		"killed": {
			func(_ *testing.T, s *redistest.Server) { s.Kill() },
			func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Restart()) },
		},
		"without its replicas": {
			func(t *testing.T, s *redistest.Server) {
				require.NoError(t, s.Do("CONFIG", "SET", "min-replicas-to-write", "1").Error())
			},
			func(t *testing.T, s *redistest.Server) {
				require.NoError(t, s.Do("CONFIG", "SET", "min-replicas-to-write", "0").Error())
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis, s := startReal(t)
			// A client made otherwise has a call wait for the dial: see package wire.
			var err error
			s.option, err = redisstore.ClientOption(s.option, time.Minute)
			require.NoError(t, err)
			keeper, err := renewer.New(s.store(t), renewer.Config{
				Log: renewer.Silent,
				TTL: 3 * time.Second, FailOver: time.Second,
			})
			require.NoError(t, err)
			t.Cleanup(func() { _ = keeper.Shutdown(within(t, patience)) })
			once := func() error {
				l, err := keeper.Acquire(within(t, patience), renewer.Request{
					Name: "a", MaxWait: patience / 2,
				})
				if err == nil {
					err = l.Release(t.Context())
				}
				return err
			}
			works := func() bool { return once() == nil } // a busy server may answer too late
			require.Eventually(t, works, patience, time.Millisecond)
			c.stop(t, redis)
			err = once()
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			require.ErrorContains(t, err, "no answer since ")
			require.ErrorIs(t, keeper.HealthCheck(), renewer.ErrUnavailable)
			for begun := time.Now(); time.Since(begun) < 600*time.Millisecond; { // a probe
				asked := time.Now()
				require.ErrorIs(t, once(), renewer.ErrUnavailable)
				assert.Less(t, time.Since(asked), patience/2)
				<-time.After(20 * time.Millisecond)
			}
			require.ErrorIs(t, keeper.HealthCheck(), renewer.ErrUnavailable)
			c.resume(t, redis)
			require.Eventually(t, func() bool { return keeper.HealthCheck() == nil }, patience,
				10*time.Millisecond)
			require.Eventually(t, works, patience, time.Millisecond)
		})
	}
}
