package proxy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/embedded"
	"github.com/lockbeat/lockbeat/testutil/proxy"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// behind returns a server, a proxy before it, and a pipelining client behind the proxy.
func behind(t *testing.T) (*embedded.Redis, *proxy.Proxy, rueidis.Client) {
	t.Helper()
	redis := embedded.Run(t)
	p := proxy.Start(t, redis.Addr())
	option := redis.ClientOption()
	option.InitAddress = []string{p.Addr()}
	option.AlwaysPipelining = true
	option.PipelineMultiplex = -1
	option.DisableRetry = true
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return redis, p, client
}

// TestMuteSwallowsAll looks at the bytes: a client would hide a reply
// that comes after all, by taking it for another one.
func TestMuteSwallowsAll(t *testing.T) {
	t.Parallel()
	redis := embedded.Run(t)
	p := proxy.Start(t, redis.Addr())
	p.DropReply(1, proxy.ThenMute)
	conn := dial(t, p.Addr())
	send(t, conn, command("INCR", "1")+command("INCR", "2"))
	require.Eventually(t, func() bool { return redis.Mini().Exists("2") }, bound, time.Millisecond)
	send(t, conn, command("INCR", "3"))
	require.Eventually(t, func() bool { return redis.Mini().Exists("3") }, bound, time.Millisecond)
	silent(t, conn)
	assert.Equal(t, []string{"1", "2", "3"}, redis.Mini().Keys())
}

func TestDropMatchingDropsMessages(t *testing.T) {
	t.Parallel()
	redis, p, client := behind(t)
	p.DropMatching(func(reply []byte) bool { return bytes.Contains(reply, []byte("secret")) })
	ready, got := make(chan struct{}), make(chan string, 10)
	ctx, cancel := context.WithCancel(rueidis.WithOnSubscriptionHook(t.Context(),
		func(rueidis.PubSubSubscription) {
			close(ready)
		}))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = client.Receive(ctx, client.B().Subscribe().Channel("c").Build(),
			func(m rueidis.PubSubMessage) {
				got <- m.Message
			})
	}()
	defer func() { cancel(); <-done }()
	<-ready
	for i := range 3 {
		redis.Mini().Publish("c", fmt.Sprint("secret ", i))
		redis.Mini().Publish("c", fmt.Sprint("open ", i))
	}
	for i := range 3 {
		assert.Equal(t, fmt.Sprint("open ", i), <-got)
	}
	assert.Equal(t, 3, p.Dropped())
	p.DropMatching(nil)
	redis.Mini().Publish("c", "secret at last")
	assert.Equal(t, "secret at last", <-got)
}

// TestDropReplyToIsExact counts replies on one connection with a push among them, in one packet.
func TestDropReplyToIsExact(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	p := proxy.Start(t, server.Addr())
	p.Delay(soon)
	p.DropReplyTo(func(request []byte) bool {
		return bytes.Contains(request, []byte("victim"))
	}, 1, proxy.ThenReset)
	conn := dial(t, p.Addr())
	send(t, conn, command("HELLO", "3")+command("SUBSCRIBE", "c")+command("SET", "a", "1")+
		command("INCR", "a")+
		command("INCR", "victim")+command("INCR", "b"))
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(bound)))
	got, err := io.ReadAll(conn)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, afterHello, found := bytes.Cut(got, []byte(">3\r\n$9\r\nsubscribe\r\n"))
	require.True(t, found, "%q", got)
	assert.Equal(t, "$1\r\nc\r\n:1\r\n+OK\r\n:2\r\n", string(afterHello),
		"all before the victim, late but whole")
	require.Eventually(t, func() bool {
		n, err := server.Do("EXISTS", "victim", "b").AsInt64()
		return err == nil && n == 2
	}, bound, time.Millisecond, "the server reads all that was sent")
}

func command(args ...string) string {
	text := fmt.Sprintf("*%d\r\n", len(args))
	for _, arg := range args {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(arg), arg)
	}
	return text
}
