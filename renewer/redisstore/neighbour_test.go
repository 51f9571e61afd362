package redisstore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// neighbour is a service with a prefix and a user of its own.
type neighbour struct {
	prefix string
	client rueidis.Client
	store  *redisstore.Engine
}

// Two services, of which one's prefix begins with the other's, by users with
// the documented rights and with all that is optional: neither reaches the
// other's keys and channels in any way, and each has what it needs. The pattern
// of the outer one covered the inner one's keys.
func TestNeighboursDoNotTouchEachOther(t *testing.T) {
	t.Parallel()
	for _, pubsub := range []string{"resetchannels", "allchannels"} {
		t.Run(pubsub, func(t *testing.T) {
			t.Parallel()
			_, s := startReal(t, "--acl-pubsub-default", pubsub)
			outer, inner := s.neighbour(t, redisstore.DefaultPrefix), s.neighbour(t,
				redisstore.DefaultPrefix+"billing:")
			for _, pair := range [][2]neighbour{{outer, inner}, {inner, outer}} {
				me, other := pair[0], pair[1]
				mine(t, other.store, claim("a", "a", time.Minute))
				seen := other.store.Prepare(t.Context(),
					[]contract.Term{{Name: "a", Fence: 1, TTL: time.Minute}})
				require.Equal(t, contract.StatusHeld, seen[0].Status)
				before := s.dump(t)
				me.triesAll(t, s, other.prefix)
				assert.Equal(t, before, s.dump(t), "nothing has changed")
				require.Equal(t, contract.StatusHeld,
					release(t, other.store, hold("a", "a", 0)).Status)
			}
			for _, n := range []neighbour{outer, inner} {
				works(t, n.store)
				passesOn(t, n.store)
				keepsRecords(t, n.store)
			}
		})
	}
}

func (s server) neighbour(t *testing.T, prefix string) neighbour {
	t.Helper()
	// With more than is documented: neither a pattern nor a message on a
	// shard's channel (which Redis 6.2 does not have) gets through.
	rights := strings.Fields(redisstore.Rights + " " + redisstore.LineRights + " +psubscribe " +
		"+punsubscribe +script|load")
	if s.sharded(t) {
		rights = append(rights, "+spublish", "+ssubscribe")
	}
	n := neighbour{prefix: prefix, client: s.userNamed(t, "user-of-"+prefix, prefix, rights...)}
	var err error
	n.store, err = redisstore.NewEngine(n.client, redisstore.Prefix(prefix))
	require.NoError(t, err)
	t.Cleanup(n.store.Close)
	return n
}

// dump is what all keys hold.
func (s server) dump(t *testing.T) map[string]string {
	t.Helper()
	keys, err := s.do(t, "KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	all := make(map[string]string)
	for _, key := range keys {
		all[key], err = s.do(t, "DUMP", key).ToString()
		require.NoError(t, err)
	}
	return all
}

// refusedOrUnknown is how servers word that a command is not allowed; that
// Redis 6.2 does not know it is as good.
const refusedOrUnknown = "NOPERM|user executing the script can't|ACL failure|" +
	"unknown command .S(PUBLISH|SUBSCRIBE|publish|subscribe)"

// triesAll sends every command that the user may, about another prefix,
// directly and by a script.
func (n neighbour) triesAll(t *testing.T, s server, prefix string) {
	t.Helper()
	lease, fence := redisstore.LockKeys(prefix, "a")
	keys := []string{
		lease, fence, redisstore.LineKey(prefix, "a"), redisstore.MarkKey(prefix), lease + ":record", prefix, prefix + "*", "other",
	}
	for _, key := range keys {
		for _, command := range [][]string{
			{"GET", key},
			{"MGET", key},
			{"SET", key, "x", "PX", "1"},
			{"DEL", key},
			{"PTTL", key},
			{"PEXPIRE", key, "1"},
			{"EXISTS", key},
			{"ZADD", key, "1", "x"},
			{"ZREM", key, "x"},
			{"ZPOPMIN", key},
			{"ZRANGE", key, "0", "-1"},
			{"ZSCORE", key, "x"},
			{"EVAL", "return redis.call('GET', KEYS[1])", "1", key},
			{"EVAL", "return redis.call('DEL', ARGV[1])", "0", key},
			{"PUBLISH", key, ""},
			{"SPUBLISH", key, ""},
			{"EVAL", "return redis.call('PUBLISH', ARGV[1], '')", "0", key + ":freed"},
			{"PUBLISH", key + ":freed", ""},
			{"PUBLISH", key + ":inbox", ""},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			err := n.client.Do(ctx, n.client.B().Arbitrary(command...).Build()).Error()
			cancel()
			var refused *rueidis.RedisError
			require.ErrorAs(t, err, &refused, "%v", command)
			assert.Regexp(t, refusedOrUnknown, err.Error(), "%v", command)
		}
	}
	for _, channel := range []string{
		lease + ":freed", lease + ":inbox", prefix + "{*", prefix + "*",
		redisstore.DefaultPrefix + "*", "*", "__keyspace@0__:" + lease,
	} {
		for _, subscribe := range []rueidis.Completed{
			n.client.B().Subscribe().Channel(channel).Build(),
			n.client.B().Psubscribe().Pattern(channel).Build(),
			n.client.B().Ssubscribe().Channel(channel).Build(),
		} {
			words := strings.Join(subscribe.Commands(), " ")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			err := n.client.Receive(ctx, subscribe, func(rueidis.PubSubMessage) {})
			cancel()
			require.Error(t, err, words)
			assert.Regexp(t, refusedOrUnknown, err.Error(), words)
		}
	}
}

// passesOn has a lock passed on to one who waits in line.
func passesOn(t *testing.T, store *redisstore.Engine) {
	t.Helper()
	mine(t, store, claim("passed", "a", time.Minute))
	next := claim("passed", "b", time.Minute)
	next.Place = 2
	require.Equal(t, contract.StatusTaken, acquire(t, store, next).Status)
	w := newWatch(store, "passed")
	defer w.stop()
	var g contract.Grant
	require.Eventually(t, func() bool {
		g = acquire(t, store, next)
		return g.Status == contract.StatusQueued
	}, patience, time.Millisecond)
	require.Equal(t, contract.StatusHeld, release(t, store, hold("passed", "a", 0)).Status)
	require.Equal(t, contract.StatusTaken,
		acquire(t, store, claim("passed", "c", time.Minute)).Status,
		"it is b's")
	require.Equal(t, contract.StatusHeld, acquire(t, store, next).Status)
	kept := hold("passed", "b", 0)
	kept.Keep = time.Millisecond
	require.Equal(t, contract.StatusHeld, release(t, store, kept).Status)
}

// keepsRecords has a record looked at and written.
func keepsRecords(t *testing.T, store *redisstore.Engine) {
	t.Helper()
	fence := mine(t, store, claim("recorded", "a", time.Minute))
	require.Equal(t, contract.StatusHeld,
		store.Prepare(t.Context(),
			[]contract.Term{{Name: "recorded", Fence: fence, TTL: time.Minute}})[0].Status)
	wrote := store.Write(t.Context(),
		[]contract.Record{{Name: "recorded", Fence: fence, Seq: 1, Data: "done", TTL: time.Minute}})
	require.Equal(t, contract.Answer{Status: contract.StatusHeld}, wrote[0])
	seen := store.Read(t.Context(), []string{"recorded"})
	require.Equal(t, "done", seen[0].Data)
	require.Equal(t, contract.StatusHeld, release(t, store, hold("recorded", "a", 0)).Status)
}

// The line that the docs give, copied as it stands, serves on a server where
// users begin with all channels. Without resetchannels the server refuses it.
func TestTheDocumentedLineServes(t *testing.T) {
	t.Parallel()
	_, s := startReal(t, "--acl-pubsub-default", "allchannels")
	_, line, found := strings.Cut(documented(t, "../../docs/redis.md"), "ACL SETUSER locks ")
	require.True(t, found)
	line, _, found = strings.Cut(line, " ```")
	require.True(t, found)
	rules := strings.Fields(strings.ReplaceAll(line, ">PASSWORD", ">secret"))
	s.ok(t, append([]string{"ACL", "SETUSER", "locks"}, rules...)...)
	for _, user := range s.texts(t, "ACL", "LIST") {
		if words := strings.Fields(user); words[1] == "locks" {
			assert.Equal(t, []string{"~lockbeat:{*", "&lockbeat:{*"},
				slices.DeleteFunc(words, func(w string) bool {
					return !strings.HasPrefix(w, "~") && !strings.HasPrefix(w, "&")
				}))
		}
	}
	s.option.Username, s.option.Password = "locks", "secret"
	store := s.store(t)
	works(t, store)
	keepsRecords(t, store)
}
