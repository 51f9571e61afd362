package redisstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	internal "github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

func show(t testing.TB, s *redisstore.Engine, name string) contract.Lock {
	t.Helper()
	return showOf(t, s, name, false)
}

func showOf(t testing.TB, s *redisstore.Engine, name string, limit bool) contract.Lock {
	t.Helper()
	lock, err := s.Show(t.Context(), name, limit)
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), lock.At, patience)
	return lock
}

// The homes of tasks are kept for as long as a task stands in line there.
func TestHomesOfTasks(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	mine(t, store, claim("a", "a", time.Hour))
	const homes = "lockbeat:{a}:homes"
	of := func(home string) internal.Task {
		one := task("1")
		one.Home = home
		return one
	}
	for _, home := range []string{"", "x", "y"} {
		arrive(t, store, arrival(of(home)))
	}
	assert.Equal(t, 3, show(t, store, "a").Tasks)
	s.pttl(t, homes, 10*minute, 15*minute)

	t.Log("what was noted some time ago is noted again, and so is what was lost")
	s.ok(t, "ZADD", homes, fmt.Sprint(time.Now().Add(-2*time.Minute).UnixMicro()), ":x")
	s.ok(t, "PEXPIRE", homes, "60000")
	arrive(t, store, arrival(of("x")))
	s.pttl(t, homes, 10*minute, 15*minute)
	s.ok(t, "ZREM", homes, "")
	arrive(t, store, arrival(of("")))
	assert.Equal(t, 3, show(t, store, "a").Tasks)

	for _, home := range []string{"", "x", "y"} {
		_, err := store.Next(t.Context(), internal.Name{Text: "a"}, 0, internal.TaskGone, of(home))
		require.NoError(t, err)
	}
	assert.Zero(t, s.number(t, "EXISTS", homes))
}

// A limit of many slots is read in several steps.
func TestShowOfALimit(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	store := s.store(t)
	const n = 900
	claims := make([]contract.Claim, n)
	for i := range claims {
		claims[i] = slotClaim("a", "a", n)
		claims[i].Owner = fmt.Sprintf("%0*d", contract.OwnerLen, i)
		claims[i].TTL += time.Duration(i) * time.Second
		claims[i].Holder.PID = i + 1
	}
	for _, grant := range store.Acquire(t.Context(), claims) {
		require.NoError(t, grant.Err)
	}
	lock := showOf(t, store, "a", true)
	require.Len(t, lock.Slots, n)
	for i, slot := range lock.Slots {
		require.Equal(t, i+1, slot.PID, "the one that lapses first is in front")
		require.Positive(t, slot.Fence)
	}
	s.ok(t, "DEL", "lockbeat:{a}:slots:holders")
	s.ok(t, "SET", "lockbeat:{a}:slots:holders", "x")
	assert.True(t, showOf(t, store, "a", true).Foreign)
}

// Each right is needed to look, and no other is. What another program has
// written harms nobody.
func TestRightsToLook(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	holder := s.store(t)
	mine(t, holder, claim("a", "a", time.Minute))
	mine(t, holder, slotClaim("a", "a", 2))
	s.ok(t, "ZADD", "lockbeat:{a}:waiters", "1", "7 INBOX 1000", "3", "x", "2", "8 INBOX 9")
	s.ok(t, "SET", "lockbeat:{a}:homes", "x")
	client := s.user(t, redisstore.DefaultPrefix, strings.Fields(redisstore.LookRights)...)
	_, err := redisstore.NewEngine(client)
	require.ErrorIs(t, err, renewer.ErrRejected, "it can't lock")
	store := storeOn(t, client, redisstore.ToInspect())
	look := func() error {
		for _, limit := range []bool{false, true} {
			if lock, err := store.Show(t.Context(), "a", limit); err != nil {
				return err
			} else if !lock.Limit {
				assert.Len(t, lock.Places, 1)
				assert.Equal(t, 3, lock.Waiting, "though its lease says that none waits")
			}
		}
		for _, err := range store.List(t.Context(), nil) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	require.NoError(t, look())
	for right := range strings.FieldsSeq(redisstore.LookRights) {
		s.ok(t, "ACL", "SETUSER", "locks", "-"+right[1:])
		err := look()
		require.ErrorIs(t, err, renewer.ErrRejected, right)
		assert.ErrorContains(t, err, "to look at locks needs "+redisstore.LookRights)
		_, err = redisstore.NewEngine(client, redisstore.ToInspect())
		require.ErrorIs(t, err, renewer.ErrRejected, right)
		assert.ErrorContains(t, err, "grant the user ~lockbeat:{* "+redisstore.LookRights+";")
		s.ok(t, "ACL", "SETUSER", "locks", right)
	}
}
