package proxy_test

import (
	"bytes"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/testutil/proxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPassesBothWaysUntilTheEnd(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := proxy.Start(t, e.addr)
	conn := dial(t, p.Addr())
	send(t, conn, "hello")
	receive(t, conn, "hello")
	assert.Equal(t, 1, p.Conns())

	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	go func() {
		_, _ = conn.Write(big) // an error shows as an answer too short
		_ = conn.CloseWrite()
	}()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(bound)))
	got, err := io.ReadAll(conn)
	require.NoError(t, err, "half-closed, and the rest arrives")
	require.True(t, bytes.Equal(big, got), "%d of %d bytes", len(got), len(big))
	require.Eventually(t, func() bool { return p.Conns() == 0 }, bound, time.Millisecond)
}

func TestTheEndWaitsForSlowReaders(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, startEcho(t).addr)
	conn := dial(t, p.Addr())
	text := strings.Repeat("x", 200<<10)
	send(t, conn, text)
	require.NoError(t, conn.CloseWrite())
	// The proxy is done with the connection, but the kernel is not: a
	// reset now would destroy what it keeps for the client.
	require.Eventually(t, func() bool { return p.Conns() == 0 }, bound, time.Millisecond)
	receive(t, conn, text)
}

func TestDelayAddsLatencyAndLimitsNoThroughput(t *testing.T) {
	t.Parallel()
	const each, many = 50 * time.Millisecond, 200
	p := proxy.Start(t, startEcho(t).addr)
	p.Delay(each)
	conn := dial(t, p.Addr())
	begin := time.Now()
	for i := range many {
		send(t, conn, string(rune('a'+i%26)))
		receiveNow := i == 0 // the first alone, as a round trip
		if receiveNow {
			receive(t, conn, "a")
			assert.GreaterOrEqual(t, time.Since(begin), 2*each)
			begin = time.Now()
		}
	}
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(bound)))
	got := make([]byte, many-1)
	_, err := io.ReadFull(conn, got)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(begin), 2*each)
	assert.Less(t, time.Since(begin), many*each/2, "the delays overlap")
	for i, b := range got {
		require.Equal(t, byte('a'+(i+1)%26), b, "in order")
	}
}

func TestLessDelayKeepsTheOrder(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := proxy.Start(t, e.addr)
	conn := dial(t, p.Addr())
	p.Delay(soon)
	send(t, conn, "first")
	// Its clock starts when the proxy has it, and there is no telling
	// from outside when that is; a whole delay is long enough.
	e.awaitGot(t, 5)
	send(t, conn, "second")
	p.Delay(0)
	send(t, conn, "third")
	receive(t, conn, "firstsecondthird")
}

func TestBlackholeUp(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := proxy.Start(t, e.addr)
	conn := dial(t, p.Addr())
	p.Blackhole(proxy.Up)
	send(t, conn, "held")
	silent(t, conn)
	assert.Zero(t, e.got.Load())
	p.Heal()
	receive(t, conn, "held")
}

func TestBlackholeDown(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := proxy.Start(t, e.addr)
	p.Blackhole(proxy.Down)
	conn := dial(t, p.Addr()) // a connection made meanwhile
	send(t, conn, "held")
	e.awaitGot(t, 4)
	silent(t, conn)
	p.Heal()
	receive(t, conn, "held")
}

func TestBlackholeHoldsTheEndToo(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, startEcho(t).addr)
	conn := dial(t, p.Addr())
	send(t, conn, "x")
	receive(t, conn, "x")
	p.Blackhole(proxy.Both)
	require.NoError(t, conn.CloseWrite())
	silent(t, conn)
	p.Heal()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(bound)))
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestHealResetDropsWhatWasHeld(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	p := proxy.Start(t, e.addr)
	conn := dial(t, p.Addr())
	send(t, conn, "x")
	receive(t, conn, "x")
	p.Blackhole(proxy.Both)
	send(t, conn, "held")
	silent(t, conn)
	p.HealReset()
	cut(t, conn)

	again := dial(t, p.Addr())
	send(t, again, "new")
	receive(t, again, "new")
	assert.EqualValues(t, len("x")+len("new"), e.got.Load(), "what was held never arrived")
}

func TestReset(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, startEcho(t).addr)
	a, b := dial(t, p.Addr()), dial(t, p.Addr())
	for _, conn := range []net.Conn{a, b} {
		send(t, conn, "x")
		receive(t, conn, "x")
	}
	p.Reset()
	cut(t, a)
	cut(t, b)
	again := dial(t, p.Addr())
	send(t, again, "x")
	receive(t, again, "x")
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	p := proxy.Start(t, startEcho(t).addr)
	old := dial(t, p.Addr())
	send(t, old, "x")
	receive(t, old, "x")
	p.Refuse(true)
	refused(t, p)
	send(t, old, "y")
	receive(t, old, "y")
	p.Refuse(false)
	conn := dial(t, p.Addr())
	send(t, conn, "x")
	receive(t, conn, "x")
}

func TestTargetDown(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	refused(t, proxy.Start(t, listener.Addr().String()))
}

// refused makes sure that a new connection is reset, at the latest when it is used.
func refused(t *testing.T, p *proxy.Proxy) {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		require.ErrorIs(t, err, syscall.ECONNRESET)
		return
	}
	defer func() { require.NoError(t, conn.Close()) }()
	cut(t, conn)
}

func TestBadTarget(t *testing.T) {
	t.Parallel()
	_, err := proxy.New("nowhere")
	require.ErrorContains(t, err, "nowhere")
}

func TestCloseWhateverTheFaults(t *testing.T) {
	t.Parallel()
	p, err := proxy.New(startEcho(t).addr)
	require.NoError(t, err)
	p.Delay(time.Hour)
	slow := dial(t, p.Addr())
	send(t, slow, "x")
	p.Blackhole(proxy.Both)
	held := dial(t, p.Addr())
	send(t, held, "x")
	require.Eventually(t, func() bool { return p.Conns() == 2 }, bound, time.Millisecond)
	p.Close()
	p.Close()
	cut(t, slow)
	cut(t, held)
	_, err = net.Dial("tcp", p.Addr())
	require.Error(t, err)
}
