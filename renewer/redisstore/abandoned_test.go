package redisstore_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// heldClient is a client that holds commands back while it is told to, as a
// processor does that has no time for the goroutine which is about to send one.
type heldClient struct {
	rueidis.Client

	mu    sync.Mutex
	held  int           // claims
	mixed bool          // a held command has a claim of each kind of leaveACrowd's callers
	send  chan struct{} // nil: at once; closed when they may go
}

func (c *heldClient) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c.mu.Lock()
	send := c.send
	if send != nil {
		words := cmd.Commands() // EVALSHA, the script, how many keys, the keys, the arguments
		leaves := len(words) > 3 && strings.Contains(words[3], leaver)
		if leaves || len(words) > 3 && strings.Contains(words[3], stayer) {
			n, _ := strconv.Atoi(words[2])
			c.held += n
			keys := strings.Join(words[3:3+n], " ")
			c.mixed = c.mixed || strings.Contains(keys, leaver) && strings.Contains(keys, stayer)
		}
	}
	c.mu.Unlock()
	if send != nil {
		select {
		case <-send:
		case <-ctx.Done(): // never sent: the client says why
		}
	}
	return c.Client.Do(ctx, cmd)
}

// hold holds commands back from now on.
func (c *heldClient) hold() (goOn func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	send := make(chan struct{})
	c.send = send
	return sync.OnceFunc(func() { close(send) })
}

// pass lets commands pass from now on, but not those that are held.
func (c *heldClient) pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.send = nil
}

// holds reports how many claims are held, and whether one of a caller who
// leaves shares a command with one of a caller who stays.
func (c *heldClient) holds() (claims int, mixed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held, c.mixed
}

// How the names begin of locks whose callers leave, or stay.
const (
	leaver = "leaver"
	stayer = "stayer"
)

// leaveACrowd has callers ask for locks together, of whom each second one
// leaves before anything is sent: all claims are held back. It returns the
// names that those have left.
func leaveACrowd(
	t *testing.T, store *redisstore.Engine, client *heldClient,
) (abandoned []string, wait func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var leaving, staying sync.WaitGroup
	ask := func(ctx context.Context, name string) {
		grants := store.Acquire(ctx, []contract.Claim{claim(name, "a", time.Minute)})
		if ctx == t.Context() {
			assert.NoError(t, grants[0].Err)
		} else {
			assert.ErrorIs(t, grants[0].Err, context.Canceled)
		}
	}
	// Who meets whom is up to the scheduler: callers come until two of each
	// kind have met.
	for mixed := false; !mixed; {
		for range 30 {
			i := len(abandoned)
			abandoned = append(abandoned, fmt.Sprint(leaver, i))
			leaving.Go(func() { ask(ctx, fmt.Sprint(leaver, i)) })
			staying.Go(func() { ask(t.Context(), fmt.Sprint(stayer, i)) })
		}
		require.Eventually(t, func() bool {
			var claims int
			claims, mixed = client.holds()
			return claims == 2*len(abandoned)
		}, patience, time.Millisecond)
	}
	leave()
	leaving.Wait()
	return abandoned, staying.Wait
}

// A caller left while its claim was about to be sent together with others, and
// what was to free that claim overtook it: the key stayed for its TTL, and all
// others waited for that. A release that waits for such a claim does not outlast
// its own time.
func TestAReleaseOvertookAnAbandonedClaim(t *testing.T) {
	t.Parallel()
	_, s := startReal(t)
	client := &heldClient{Client: s.client(t)}
	store := storeOn(t, client)
	// the server must know the script, lest nothing be carried out together
	mine(t, store, claim("first", "a", time.Minute))
	goOn := client.hold()
	abandoned, stayed := leaveACrowd(t, store, client)

	client.pass()
	holds := make([]contract.Hold, len(abandoned))
	for i, name := range abandoned {
		holds[i] = hold(name, "a", 0)
	}
	for _, answer := range store.Release(within(t, 50*time.Millisecond), holds) {
		assert.Equal(t, contract.StatusUnknown, answer.Status)
		assert.ErrorIs(t, answer.Err, context.DeadlineExceeded)
	}
	var freed sync.WaitGroup
	for _, h := range holds {
		freed.Go(func() { release(t, store, h) })
	}
	goOn()
	stayed()
	freed.Wait()
	for _, name := range abandoned {
		mine(t, store, claim(name, "b", time.Minute))
	}
}
