package quorum_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// A server may be used alone as well, and its mark be far ahead of the others'
// clocks: what it grants alone bars no proposal for long, neither for new names
// nor for one that is used again.
func TestAServerThatIsUsedAloneToo(t *testing.T) {
	t.Parallel()
	const ttl = 20 * time.Second
	all := servers(t, 3)
	s := overRedis(t, all, ttl)
	for _, server := range all[:2] { // so that there is no majority without one of them
		ahead := strconv.FormatInt(time.Now().Add(time.Hour).UnixMicro(), 10)
		require.NoError(t, server.Do("SET", redisstore.DefaultPrefix+"{%}:mark", ahead).Error())
	}
	k := keeperOn(t, s, renewer.Config{TTL: ttl})
	plain := keeperOn(t, onRedis(t, all[0], ttl, nil), renewer.Config{TTL: ttl})
	last := map[string]int64{}
	for i := range 20 {
		l, err := plain.Acquire(t.Context(), renewer.Request{Name: fmt.Sprint("plain-", i)})
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
		for _, name := range []string{"again", fmt.Sprint("new-", i)} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			l, err := k.Acquire(ctx, renewer.Request{Name: name})
			cancel()
			require.NoError(t, err)
			require.Greater(t, l.Fence(), last[name])
			last[name] = l.Fence()
			require.NoError(t, l.Release(t.Context()))
		}
	}
}
