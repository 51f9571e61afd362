package redisstore_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// sesame is a password, which no error may show.
const sesame = "open-sesame"

// fromWords makes a deployment of variables NAME=value.
func fromWords(t *testing.T, words ...string) redisstore.Deployment {
	t.Helper()
	d, err := redisstore.FromLookup(func(name string) (string, bool) {
		for _, word := range words {
			if key, value, _ := strings.Cut(word, "="); key == name {
				return value, true
			}
		}
		return "", false
	})
	require.NoError(t, err)
	return d
}

func fileWith(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// lockAt opens d, and takes and frees a lock there.
func lockAt(t *testing.T, d redisstore.Deployment, opts ...redisstore.Option) {
	t.Helper()
	opts = append([]redisstore.Option{redisstore.Log(renewer.Silent)}, opts...)
	store, err := redisstore.OpenEngine(t.Context(), d, opts...)
	require.NoError(t, err)
	defer store.Close()
	keeper, err := renewer.New(store, renewer.Config{})
	require.NoError(t, err)
	lease, err := keeper.Acquire(t.Context(), renewer.Request{Name: "job", MaxWait: patience})
	require.NoError(t, err)
	require.NoError(t, lease.Release(t.Context()))
	require.NoError(t, keeper.Shutdown(t.Context()))
}

func TestFromEnv(t *testing.T) {
	t.Setenv("LOCKBEAT_URL", "redis://h/3")
	d, err := redisstore.FromEnv()
	require.NoError(t, err)
	assert.Equal(t, []string{"h:6379"}, d.Option.InitAddress)
	t.Setenv("LOCKBEAT_URL", sesame)
	_, err = redisstore.FromEnv()
	require.ErrorIs(t, err, renewer.ErrConfig)
	assert.NotContains(t, err.Error(), sesame)
}

func TestOpenOneServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Do("ACL", "SETUSER", "locks", "on", ">"+sesame, "~*", "&*", "+@all").
		Error())
	d := fromWords(t, "LOCKBEAT_URL=redis://locks@"+server.Addr()+"/3",
		"LOCKBEAT_PASSWORD_FILE="+fileWith(t, sesame+"\n"), "LOCKBEAT_PREFIX=mine:")
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%d"} {
		assert.Equal(t, "Redis at "+server.Addr(), fmt.Sprintf(verb, d), "no password")
	}
	lockAt(t, d)
	look := server.Client(t, func(o *rueidis.ClientOption) { o.SelectDB = 3 })
	left, err := look.Do(t.Context(), look.B().Keys().Pattern("*").Build()).AsStrSlice()
	require.NoError(t, err)
	require.NotEmpty(t, left, "the mark of the fencing tokens")
	for _, key := range left {
		assert.True(t, strings.HasPrefix(key, "mine:"), key)
	}
	client, err := rueidis.NewClient(d.Option)
	require.NoError(t, err)
	defer client.Close()
	assert.NoError(t, client.Do(t.Context(), client.B().Exists().Key(left[0]).Build()).Error())

	lockAt(t, d, redisstore.Prefix("other:"))
	assert.NoError(t, look.Do(t.Context(), look.B().Get().Key("other:{%}:mark").Build()).Error())
}

// Open and Config agree on the TTL, or are told so.
func TestTheTTLOfOpen(t *testing.T) {
	t.Parallel()
	d, err := redisstore.FromURL("redis://" + redistest.Start(t).Addr())
	require.NoError(t, err)
	store, err := redisstore.OpenEngine(t.Context(), d)
	require.NoError(t, err)
	defer store.Close()
	assert.Equal(t, renewer.DefaultTTL, store.LeastTTL())
	assert.Equal(t, renewer.DefaultTTL/8, store.Settle())
	_, err = renewer.New(store, renewer.Config{TTL: 5 * time.Second})
	require.ErrorIs(t, err, renewer.ErrConfig)
	require.ErrorContains(t, err, "Deployment.TTL")

	d.TTL = 5 * time.Second
	short, err := redisstore.OpenEngine(t.Context(), d)
	require.NoError(t, err)
	defer short.Close()
	assert.Equal(t, 5*time.Second/8, short.Settle())
	keeper, err := renewer.New(short, renewer.Config{TTL: 5 * time.Second})
	require.NoError(t, err)
	require.NoError(t, keeper.Shutdown(t.Context()))
}

// A wrong password is told apart from a server that is away.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", sesame)
	addr := server.Addr()
	for url, c := range map[string]struct {
		is   error
		says string
	}{
		"redis://:wrong-" + sesame + "@" + addr: {
			renewer.ErrConfig, "the user or the password is wrong in the URL (LOCKBEAT_URL) or " +
				"LOCKBEAT_PASSWORD_FILE: the server at " + addr + " says: WRONGPASS",
		},
		"redis://" + addr: {renewer.ErrConfig, "a password is missing in the URL (LOCKBEAT_URL) or " +
			"LOCKBEAT_PASSWORD_FILE: the server at " + addr + " says: NOAUTH"},
		"redis://:" + sesame + "@" + addr + "/99": {
			renewer.ErrConfig, ": the URL (LOCKBEAT_URL): the server at",
		},
		"redis://" + redistest.Start(t).Addr() + "?sentinel_master=m": {
			renewer.ErrConfig, "whose hosts must be Sentinels, or LOCKBEAT_SENTINEL_MASTER: ",
		},
		"redis://:" + sesame + "@127.0.0.1:1": {renewer.ErrUnavailable, "127.0.0.1:1"},
		"redis://:" + sesame + "@" + addr + "?cluster=true": {
			renewer.ErrConfig, "none of a cluster: leave out LOCKBEAT_CLUSTER, or cluster=true in the URL",
		},
	} {
		d, err := redisstore.FromURL(url)
		require.NoError(t, err)
		_, err = redisstore.OpenEngine(t.Context(), d)
		require.ErrorIs(t, err, c.is)
		assert.NotEqual(t, errors.Is(err, renewer.ErrConfig), errors.Is(err, renewer.ErrUnavailable))
		assert.ErrorContains(t, err, c.says)
		assert.NotContains(t, err.Error(), sesame)
	}
	assertLeft(t, server)
}

// A server that is too busy to greet is away, and not misconfigured.
func TestOpenIsToldWhatPasses(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"BUSY Redis is busy running a script", "LOADING Redis is loading the dataset in memory",
		"MASTERDOWN Link with MASTER is down", "ERR max number of clients reached",
	} {
		addr := answering(t, func([]string) string { return "-" + answer + "\r\n" })
		d, err := redisstore.FromURL("redis://" + addr + "?cluster=false")
		require.NoError(t, err)
		_, err = redisstore.OpenEngine(t.Context(), d)
		require.ErrorIs(t, err, renewer.ErrUnavailable, answer)
		require.NotErrorIs(t, err, renewer.ErrConfig, answer)
		require.ErrorContains(t, err, strings.TrimPrefix(answer, "ERR "))
	}
}

func TestOpenNamesEveryFault(t *testing.T) {
	t.Parallel()
	_, err := redisstore.OpenEngine(t.Context(), redisstore.Deployment{Prefix: "none"},
		redisstore.Log(nil))
	require.ErrorIs(t, err, renewer.ErrConfig)
	for _, says := range []string{"Deployment.Option.InitAddress: is empty", "Prefix: ", "Log: "} {
		assert.ErrorContains(t, err, says)
	}
	_, err = redisstore.OpenEngine(t.Context(), redisstore.Deployment{TTL: -1})
	require.ErrorIs(t, err, renewer.ErrConfig)
	assert.ErrorContains(t, err, "ttl: ")
}

func TestOpenWarnsOfAFileThatAllCanRead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--requirepass", sesame)
	path := fileWith(t, sesame)
	require.NoError(t, os.Chmod(path, 0o604))
	var log bytes.Buffer
	lockAt(t, fromWords(t, "LOCKBEAT_URL=redis://"+server.Addr(), "LOCKBEAT_PASSWORD_FILE="+path),
		redisstore.Log(slog.New(slog.NewTextHandler(&log, nil))))
	assert.Contains(t, log.String(), "lockbeat: LOCKBEAT_PASSWORD_FILE: everybody can read "+path)
}

func TestOpenTLS(t *testing.T) {
	t.Parallel()
	server := redistest.StartTLS(t, "--tls-auth-clients", "yes")
	url := "LOCKBEAT_URL=rediss://" + server.TLSOption().InitAddress[0]
	trusted := []string{
		url, "LOCKBEAT_TLS_CA=" + server.Authority(), "LOCKBEAT_TLS_SERVER_NAME=example.com",
	}
	cert, key := server.Pair()
	lockAt(t, fromWords(t, append(trusted, "LOCKBEAT_TLS_CERT="+cert, "LOCKBEAT_TLS_KEY="+key)...))

	fails := func(says string, words ...string) {
		t.Helper()
		var err error
		assert.Eventually(t, func() bool { // a busy machine may take too long to shake hands
			_, err = redisstore.OpenEngine(t.Context(), fromWords(t, words...))
			require.ErrorIs(t, err, renewer.ErrUnavailable)
			return strings.Contains(err.Error(), says)
		}, patience, time.Millisecond)
		assert.ErrorContains(t, err, says)
	}
	fails("failed to verify certificate", url)
	fails("set LOCKBEAT_TLS_SERVER_NAME", url)
	fails("set LOCKBEAT_TLS_CA", url, "LOCKBEAT_TLS_SERVER_NAME=example.com")
	fails("", trusted...) // without the client's certificate
}

func TestOpenSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinel(t)
	for _, option := range [][]redisstore.Option{nil, {redisstore.ToInspect()}} {
		_, err := redisstore.OpenEngine(t.Context(),
			fromWords(t, "LOCKBEAT_URL=redis://"+s.Sentinels[0].Addr()), option...)
		require.ErrorIs(t, err, renewer.ErrConfig, "it was said to have renamed its commands")
		assert.ErrorContains(t, err, "a Sentinel (let LOCKBEAT_SENTINEL_MASTER, ")
	}
	for _, server := range s.Sentinels {
		for _, words := range [][]string{
			{"ACL", "SETUSER", "asker", "on", ">" + sesame, "~*", "&*", "+@all"},
			{"ACL", "SETUSER", "default", "off"},
		} {
			require.NoError(t, server.Do(words...).Error())
		}
	}
	hosts := "redis://" + s.Sentinels[0].Addr() + "," + s.Sentinels[1].Addr()
	master := "LOCKBEAT_SENTINEL_MASTER=" + redistest.MasterSet
	lockAt(t, fromWords(t, "LOCKBEAT_URL="+hosts, master, "LOCKBEAT_SENTINEL_USER=asker",
		"LOCKBEAT_SENTINEL_PASSWORD_FILE="+fileWith(t, sesame)))

	d, err := redisstore.FromURL(hosts + "?sentinel_master=" + redistest.MasterSet)
	require.NoError(t, err)
	_, err = redisstore.OpenEngine(t.Context(), d)
	require.ErrorIs(t, err, renewer.ErrConfig)
	assert.ErrorContains(t, err, "LOCKBEAT_SENTINEL_PASSWORD_FILE")
}

// A cluster is recognised by one of its nodes; with several hosts it has to be said.
// Nodes that are to be known by a host name and have none are called "?": no client finds
// them, and each call waited until its deadline.
func TestOpenCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	one := "redis://" + c.Masters[0].Addr()
	lockAt(t, fromWords(t, "LOCKBEAT_URL="+one))
	both := fromWords(t, "LOCKBEAT_URL="+one+","+c.Masters[1].Addr(), "LOCKBEAT_CLUSTER=true")
	lockAt(t, both)

	if !c.Masters[0].Knows("SSUBSCRIBE") {
		return // endpoints came with Redis 7
	}
	endpoints := func(of string) {
		for _, node := range c.Masters {
			require.NoError(t, node.Do("CONFIG", "SET", "cluster-preferred-endpoint-type", of).Error())
		}
	}
	endpoints("hostname")
	_, err := redisstore.OpenEngine(t.Context(), both)
	require.ErrorIs(t, err, renewer.ErrRejected)
	assert.ErrorContains(t, err, "cluster-announce-hostname")
	require.NotErrorIs(t, err, context.DeadlineExceeded)
	endpoints("unknown-endpoint")
	lockAt(t, both) // null is the address that was asked
}

// Open ends with its context while a server says nothing, and leaves no
// connection behind.
func TestOpenIsCancelled(t *testing.T) {
	t.Parallel()
	for _, query := range []string{"", "?cluster=false", "?cluster=true", "?sentinel_master=m"} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer func() { assert.NoError(t, silent.Close()) }()
			d, err := redisstore.FromURL("redis://" + silent.Addr().String() + query)
			require.NoError(t, err)
			d.TTL = time.Hour // so that no time-out ends it
			d.Option.Dialer = net.Dialer{Timeout: d.TTL / 4, KeepAlive: d.TTL / 8}
			d.Option.Sentinel.Dialer, d.Option.ConnWriteTimeout = d.Option.Dialer, d.TTL/4

			ctx, cancel := context.WithCancelCause(t.Context())
			enough := errors.New("enough")
			failed := make(chan error, 1)
			go func() {
				_, err := redisstore.OpenEngine(ctx, d)
				failed <- err
			}()
			conn, err := silent.Accept()
			require.NoError(t, err)
			defer func() { assert.NoError(t, conn.Close()) }()
			_, err = conn.Read(make([]byte, 1))
			require.NoError(t, err, "it has begun its greeting")
			cancel(enough)
			require.ErrorIs(t, <-failed, enough)
			_, err = conn.Read(make([]byte, 4096))
			for err == nil {
				_, err = conn.Read(make([]byte, 4096))
			}
			assert.ErrorIs(t, err, io.EOF, "the connection is closed")
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d, err := redisstore.FromURL("redis://127.0.0.1:1")
	require.NoError(t, err)
	_, err = redisstore.OpenEngine(ctx, d)
	require.ErrorIs(t, err, context.Canceled)
}

// What New would refuse, Open refuses, and closes its client.
func TestOpenWithoutRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Do("ACL", "SETUSER", "poor", "on", ">"+sesame, "~*", "&*", "+@all",
		"-eval", "-evalsha").Error())
	d, err := redisstore.FromURL("redis://poor:" + sesame + "@" + server.Addr())
	require.NoError(t, err)
	_, err = redisstore.OpenEngine(t.Context(), d)
	require.ErrorIs(t, err, renewer.ErrRejected)
	assertLeft(t, server)
}

// A node to which a connection is still being made when Open has failed is
// left, too.
func TestOpenFailsBeforeAllNodesAreReached(t *testing.T) {
	t.Parallel()
	fast, slow := redistest.Start(t), redistest.Start(t)
	d, err := redisstore.FromURL("redis://" + fast.Addr() + "," + slow.Addr() + "?cluster=true")
	require.NoError(t, err)
	dialing, failed, dialed := make(chan struct{}), make(chan struct{}), make(chan error, 9)
	begin := sync.OnceFunc(func() { close(dialing) })
	d.Option.DialCtxFn = func(
		ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config,
	) (net.Conn, error) {
		if addr == fast.Addr() {
			<-dialing
			return dialer.DialContext(ctx, "tcp", addr)
		}
		begin()
		<-failed
		conn, err := dialer.DialContext(context.WithoutCancel(ctx), "tcp", addr)
		dialed <- err
		return conn, err
	}
	_, err = redisstore.OpenEngine(t.Context(), d)
	close(failed)
	require.ErrorIs(t, err, renewer.ErrConfig, "no cluster")
	require.NoError(t, <-dialed)
	assertLeft(t, slow)
}

// assertLeft waits until no client but the test's own is connected.
func assertLeft(t *testing.T, server *redistest.Server) {
	t.Helper()
	assert.EventuallyWithT(t, func(c *assert.CollectT) {
		list, err := server.Do("CLIENT", "LIST").ToString()
		assert.NoError(c, err)
		assert.Equal(c, 1, strings.Count(list, "\n"), list)
	}, patience, 5*time.Millisecond)
}

// A server that hangs while Open asks what it can do does not hold it.
func TestOpenIsCancelledWhileItAsks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d, err := redisstore.FromURL("redis://" + server.Addr() + "?cluster=false")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var frozen error
	freeze := sync.OnceFunc(func() {
		frozen = server.Stop()
		cancel()
	})
	d.Option.DialCtxFn = func(
		ctx context.Context, addr string, dialer *net.Dialer, _ *tls.Config,
	) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, "tcp", addr)
		return &watchedConn{conn, freeze}, err
	}
	_, err = redisstore.OpenEngine(ctx, d)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, frozen)
	require.NoError(t, server.Cont())
	assertLeft(t, server)
}

// watchedConn calls scripts before a script is sent.
type watchedConn struct {
	net.Conn
	scripts func()
}

func (c *watchedConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("EVAL")) {
		c.scripts()
	}
	return c.Conn.Write(b)
}
