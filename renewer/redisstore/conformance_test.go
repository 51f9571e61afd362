package redisstore_test

import (
	"context"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/storetest"
)

// least is a client of a user with the documented rights on prefix and nothing
// else.
func (s server) least(t *testing.T, prefix string) server {
	t.Helper()
	rights := append(scope(prefix), strings.Fields(strings.Join([]string{
		redisstore.Rights, redisstore.LineRights, redisstore.LimitRights, redisstore.LookRights,
		redisstore.BreakRights, redisstore.BreakLimitRights,
	}, " "))...)
	name := "user-of-" + prefix
	s.ok(t, append([]string{"ACL", "SETUSER", name}, rights...)...)
	s.option.Username, s.option.Password = name, "secret"
	return s
}

// beating is a store whose claims are native wherever they may be, and that
// sends the first heartbeat of each lease at once.
type beating struct{ *redisstore.Engine }

func (s beating) Acquire(ctx context.Context, claims []contract.Claim) []contract.Grant {
	grants := s.Engine.Acquire(ctx, claims)
	for i, g := range grants {
		if c := &claims[i]; g.Status == contract.StatusHeld && c.Limit == 0 {
			s.Renew(context.WithoutCancel(ctx), []contract.Hold{
				{Name: c.Name, Owner: c.Owner, TTL: c.TTL, Fence: g.Fence},
			})
		}
	}
	return grants
}

// fixture is an empty store under a prefix of its own, so that the cases share
// a server.
func (s server) fixture(t *testing.T, prefix string) storetest.Fixture {
	t.Helper()
	lease := func(name string) string { return redisstore.LeaseKey(prefix, name) }
	store := s.store(t, redisstore.Prefix(prefix))
	store.NeverNative() // the suite breaks leases before their first heartbeats
	return storetest.Fixture{
		Store:    store,
		Reserves: true,
		Lines:    true,
		Delete:   func(name string) { s.ok(t, "DEL", lease(name)) },
		DeleteLine: func(name string) {
			s.ok(t, "DEL", redisstore.LineKey(prefix, name))
		},
		Overwrite: func(name string) {
			s.ok(t, "SET", lease(name), "somebody else", "PX",
				strconv.Itoa(int(time.Minute.Milliseconds())))
		},
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	var n atomic.Int32
	prefix := func() string { return "case" + strconv.Itoa(int(n.Add(1))) + ":" }

	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		suite.OnlyLong(t)
		_, s := startReal(t)
		storetest.Run(t, func(t *testing.T) storetest.Fixture { return s.fixture(t, prefix()) })
	})
	t.Run("redis, by native claims", func(t *testing.T) {
		t.Parallel()
		_, s := startReal(t)
		s.ok(t, "CONFIG", "RESETSTAT")
		t.Cleanup(func() { assert.Greater(t, calls(t, s, "incr"), int64(100)) })
		storetest.Run(t, func(t *testing.T) storetest.Fixture {
			f := s.fixture(t, prefix())
			store := f.Store.(*redisstore.Engine)
			store.NativeAtOnce()
			f.Store = beating{store}
			return f
		})
	})
	t.Run("redis by RESP2", func(t *testing.T) {
		t.Parallel()
		suite.OnlyLong(t)
		_, s := startReal(t)
		s.option.AlwaysRESP2 = true
		storetest.Run(t, func(t *testing.T) storetest.Fixture { return s.fixture(t, prefix()) })
	})
	t.Run("redis with the recommended client options, and the least rights", func(t *testing.T) {
		t.Parallel()
		_, s := startReal(t)
		var err error
		s.option, err = redisstore.ClientOption(s.option, 15*time.Second)
		require.NoError(t, err)
		storetest.Run(t, func(t *testing.T) storetest.Fixture {
			p := prefix()
			return s.least(t, p).fixture(t, p)
		})
	})
	t.Run("redis, one key a script", func(t *testing.T) {
		t.Parallel()
		suite.OnlyLong(t)
		_, s := startReal(t)
		storetest.Run(t, func(t *testing.T) storetest.Fixture {
			f := s.fixture(t, prefix())
			f.Store.(*redisstore.Engine).OneKeyAScript()
			return f
		})
	})
}
