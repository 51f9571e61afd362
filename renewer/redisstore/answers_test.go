package redisstore_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// honest are the errors that an honest server can answer with, whatever it is
// asked. %s is the command.
var honest = map[string]string{
	"MISCONF": "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to " +
		"persist to disk.",
	"MASTERDOWN": "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to " +
		"'no'.",
	"LOADING":    "LOADING Redis is loading the dataset in memory",
	"BUSY":       "BUSY Redis is busy running a script. You can only call SCRIPT KILL.",
	"NOPERM":     "NOPERM User locks has no permissions to run the '%s' command",
	"NOAUTH":     "NOAUTH Authentication required.",
	"WRONGPASS":  "WRONGPASS invalid username-password pair or user is disabled.",
	"READONLY":   "READONLY You can't write against a read only replica.",
	"OOM":        "OOM command not allowed when used memory > 'maxmemory'.",
	"NOREPLICAS": "NOREPLICAS Not enough good replicas to write.",
	"UNBLOCKED":  "UNBLOCKED force unblock from blocking operation, instance state changed",
	"NOSCRIPT":   "NOSCRIPT No matching script. Please use EVAL.",
	"NOPROTO":    "NOPROTO unsupported protocol version",
	"unknown":    "ERR unknown command '%s', with args beginning with: ",
	"clients":    "ERR max number of clients reached",
	// of a cluster
	"CLUSTERDOWN": "CLUSTERDOWN Hash slot not served",
	"TRYAGAIN":    "TRYAGAIN Multiple keys request during rehashing of slot",
	"MOVED":       "MOVED 1 %s",
	"ASK":         "ASK 1 %s",
}

// bySentinel are those that an honest Sentinel can answer with. It knows no
// disk, no scripts and no primary, and asks for a password at the greeting.
var bySentinel = []string{"NOPERM", "unknown"}

// link is the way to real servers, on which commands are answered by an error
// in their place: what is sent on in place of such a command is a script that
// answers so.
type link struct {
	sentinels map[string]bool // by address

	mu    sync.Mutex
	with  string               // an error of honest; "" passes all
	only  string               // the one command that it answers; "" for all
	seen  map[string]bool      // commands that were sent
	count int                  // how many it has answered
	conns map[*linked]struct{} // open ones
}

func newLink() *link {
	return &link{seen: make(map[string]bool), conns: make(map[*linked]struct{})}
}

// answer has a command answered by an error from now on, or all of them.
func (l *link) answer(with, only string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.with, l.only, l.count = with, only, 0
}

// cut ends all connections.
func (l *link) cut() {
	l.mu.Lock()
	open := slices.Collect(maps.Keys(l.conns))
	l.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
}

func (l *link) answeredSoFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count
}

// commands are those that were sent.
func (l *link) commands() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.seen))
}

func (l *link) dial(
	ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config,
) (net.Conn, error) {
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &linked{Conn: conn, l: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c] = struct{}{}
	return c, nil
}

// instead returns what is sent in place of a command.
func (l *link) instead(words []string, addr string) []string {
	name := strings.ToUpper(words[0])
	if name == "CLIENT" || name == "CONFIG" || name == "SENTINEL" || name == "CLUSTER" {
		name += " " + strings.ToUpper(words[1])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[name] = true
	if l.with == "" || l.only != "" && l.only != name ||
		l.sentinels[addr] && name == "PING" && !slices.Contains(bySentinel, l.with) {
		return words
	}
	l.count++
	text := honest[l.with]
	switch {
	case l.with == "MOVED" || l.with == "ASK":
		text = fmt.Sprintf(text, addr) // to and fro
	case strings.Contains(text, "%s"):
		text = fmt.Sprintf(text, strings.ToLower(words[0]))
	}
	return []string{"EVAL", "return redis.error_reply(ARGV[1])", "0", text}
}

// linked is a connection of a link.
type linked struct {
	net.Conn
	l       *link
	pending []byte // the beginning of a command
}

func (c *linked) Write(b []byte) (int, error) {
	c.pending = append(c.pending, b...)
	var out []byte
	for {
		left := bytes.NewReader(c.pending)
		in := bufio.NewReader(left)
		words, err := readCommand(in)
		if err != nil || len(words) == 0 {
			break
		}
		c.pending = c.pending[len(c.pending)-left.Len()-in.Buffered():]
		words = c.l.instead(words, c.RemoteAddr().String())
		out = fmt.Appendf(out, "*%d\r\n", len(words))
		for _, word := range words {
			out = append(out, bulk(word)...)
		}
	}
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (c *linked) Close() error {
	c.l.mu.Lock()
	delete(c.l.conns, c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}

// useAll calls everything that sends commands. Each call returns soon, whatever
// is answered.
func useAll(t *testing.T, s *redisstore.Engine) {
	t.Helper()
	const within = 200 * time.Millisecond
	call := func(what string, f func(ctx context.Context)) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		done := make(chan struct{})
		go func() { f(ctx); close(done) }()
		select {
		case <-done:
		case <-time.After(patience):
			assert.Fail(t, "hangs", what)
		}
	}
	slot := slotClaim("slot", "a", 2)
	claims := []contract.Claim{
		claim("x", "a", time.Minute), claim("y", "a", time.Minute), claim("z", "a", time.Minute),
	}
	holds := []contract.Hold{hold("x", "a", 0), hold("y", "a", 0), hold("z", "a", 0)}
	for i := range holds {
		holds[i].TTL = time.Minute
	}
	stop := s.Watch("other", false, func(error) {})
	defer stop()
	call("one by one", func(ctx context.Context) {
		for range 20 { // of a lone caller, so that they go directly in the end
			s.Acquire(ctx, claims[:1])
			s.Release(ctx, holds[:1])
		}
	})
	call("acquire", func(ctx context.Context) { s.Acquire(ctx, claims) })
	call("renew", func(ctx context.Context) { s.Renew(ctx, holds) })
	call("release", func(ctx context.Context) { s.Release(ctx, holds) })
	call("limit", func(ctx context.Context) { s.Acquire(ctx, []contract.Claim{slot}) })
	call("records", func(ctx context.Context) {
		s.Prepare(ctx, []contract.Term{{Name: "r", Fence: 7, TTL: time.Minute}})
		s.Write(ctx, []contract.Record{{Name: "r", Fence: 7, Seq: 1, TTL: time.Minute}})
		s.Read(ctx, []string{"r"})
	})
	call("look", func(ctx context.Context) {
		_, _ = s.Show(ctx, "x", false)
		for _, err := range s.List(ctx, func(string, bool) bool { return true }) {
			if err != nil {
				return
			}
		}
	})
}

// givenUp is how long after its last watch a channel is given up at the latest.
const givenUp = 1500 * time.Millisecond

// deployed opens stores on a link.
type deployed func(ctx context.Context, l *link) (*redisstore.Engine, error)

// recovers plays one error as the answer to one command, or to all of them:
// first on the connections that there are, then on new ones. A panic of the
// client ends the tests.
func recovers(t *testing.T, open deployed, with, only string) {
	l := newLink()
	defer l.cut()
	store, err := open(t.Context(), l)
	require.NoError(t, err)
	defer store.Close()
	keeper, err := renewer.New(store, renewer.Config{TTL: 3 * time.Second})
	require.NoError(t, err)
	defer func() { assert.NoError(t, keeper.Shutdown(context.WithoutCancel(t.Context()))) }()
	name := with + " " + only
	w := newWatch(store, name)
	defer w.stop()
	useAll(t, store)
	w.await(t, "set up")
	lease, err := keeper.Acquire(t.Context(), renewer.Request{Name: name})
	require.NoError(t, err)

	l.answer(with, only)
	useAll(t, store)
	late := newWatch(store, name+" late")
	l.cut()
	useAll(t, store)
	once := newWatch(store, name+" once") // hears nothing where it is sent to and fro
	for n := 0; n < 300 && once.count()+len(once.errors()) == 0; n++ {
		<-time.After(time.Millisecond)
	}
	once.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	if another, err := open(ctx, l); err == nil {
		another.Close()
	}
	cancel()
	const most = 3000
	assert.Less(t, l.answeredSoFar(), most, "it does not ask without a pause")

	if only == "PING" {
		<-time.After(givenUp) // the client must not send PING behind an UNSUBSCRIBE
	}
	l.answer("", "")
	late.await(t, "set up")
	late.stop()
	ctx, cancel = context.WithTimeout(t.Context(), patience)
	defer cancel()
	_ = lease.Release(ctx) // it may be lost
	require.Eventually(t, func() bool {
		lease, err = keeper.Acquire(ctx, renewer.Request{Name: name, MaxWait: patience})
		return err == nil
	}, patience, 10*time.Millisecond)
	require.Eventually(t, func() bool { // until it is heard, the watch may have to be set up again
		g := store.Acquire(ctx, []contract.Claim{claim(name, "b", time.Minute)})[0]
		return g.Err == nil && g.Status == contract.StatusTaken
	}, patience, 10*time.Millisecond)
	w.clear()
	require.NoError(t, lease.Release(ctx))
	w.await(t, "woken by the release")
}

// An honest server's answer, whatever it is and whenever it comes, costs
// neither the process nor, once it has ended, a lock.
func TestEachAnswerOfAnHonestServer(t *testing.T) {
	t.Parallel()
	open := deployedAt(redistest.Start(t).ClientOption())
	if !suite.Long() {
		eachAnswer(t, open, []string{"MISCONF", "MASTERDOWN"}, "PING")
		eachAnswer(t, open, []string{"LOADING", "NOAUTH"}, "")
		return
	}
	l := newLink()
	store, err := open(t.Context(), l)
	require.NoError(t, err)
	useAll(t, store)
	store.Close()
	sent := l.commands()
	assert.Subset(t, sent, []string{"HELLO", "EVAL", "EVALSHA", "SUBSCRIBE", "PING", "INFO"})
	eachAnswer(t, open, every, append(sent, "")...)
}

// The same for other deployments and settings, and what is sent there alone.
func TestEachAnswerElsewhere(t *testing.T) {
	suite.OnlyLong(t)
	t.Parallel()
	common := []string{"", "PING"}
	errs := []string{"MISCONF", "MASTERDOWN", "LOADING", "NOPERM", "clients"}
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		open := deployedAt(redistest.StartCluster(t, 2, 0).ClientOption())
		eachAnswer(t, open, append(slices.Clip(errs), "CLUSTERDOWN", "TRYAGAIN", "MOVED", "ASK"),
			append(slices.Clip(common), "EVALSHA", "SSUBSCRIBE", "CLUSTER SLOTS")...)
	})
	t.Run("Sentinel", func(t *testing.T) {
		t.Parallel()
		open := deployedAt(redistest.StartSentinel(t).ClientOption())
		eachAnswer(t, open, errs, append(slices.Clip(common), "ROLE", "SUBSCRIBE", "UNSUBSCRIBE",
			"SENTINEL SENTINELS", "SENTINEL GET-MASTER-ADDR-BY-NAME")...)
	})
	t.Run("Replicas", func(t *testing.T) {
		t.Parallel()
		redis, replica := redistest.Start(t), redistest.Start(t)
		require.NoError(t, replica.Follow(redis))
		open := deployedAt(redis.ClientOption(), redisstore.Replicas(1))
		eachAnswer(t, open, append(slices.Clip(errs), "UNBLOCKED"),
			append(slices.Clip(common), "WAIT")...)
	})
	t.Run("RESP2", func(t *testing.T) {
		t.Parallel()
		option := redistest.Start(t).ClientOption()
		option.AlwaysRESP2 = true
		eachAnswer(t, deployedAt(option), errs, append(slices.Clip(common), "SUBSCRIBE")...)
	})
	t.Run("one connection", func(t *testing.T) {
		t.Parallel()
		option := redistest.Start(t).ClientOption()
		option.AlwaysPipelining = true
		eachAnswer(t, deployedAt(option), errs, common...)
	})
}

// every is all errors.
var every = slices.Sorted(maps.Keys(honest))

func deployedAt(option rueidis.ClientOption, opts ...redisstore.Option) deployed {
	return func(ctx context.Context, l *link) (*redisstore.Engine, error) {
		d := redisstore.Deployment{Option: option, TTL: 3 * time.Second}
		d.Option.DialCtxFn = l.dial
		if option.Sentinel.MasterSet != "" {
			l.sentinels = make(map[string]bool)
			for _, addr := range option.InitAddress {
				l.sentinels[addr] = true
			}
		}
		return redisstore.OpenEngine(ctx, d, append(opts, redisstore.Log(renewer.Silent))...)
	}
}

// eachAnswer plays errors as the answer to each of the commands.
func eachAnswer(t *testing.T, open deployed, errs []string, commands ...string) {
	t.Helper()
	for _, command := range commands {
		for _, with := range errs {
			t.Run(strings.TrimSpace(with+" "+command), func(t *testing.T) {
				t.Parallel()
				recovers(t, open, with, command)
			})
		}
	}
}
