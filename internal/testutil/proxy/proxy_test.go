package proxy_test

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
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

func TestTurnLeavesOpenConnections(t *testing.T) {
	t.Parallel()
	first, second := startEcho(t), startEcho(t)
	p := proxy.Start(t, first.addr)
	old := dial(t, p.Addr())
	send(t, old, "a")
	receive(t, old, "a")
	require.NoError(t, p.Turn(second.addr))
	fresh := dial(t, p.Addr())
	send(t, fresh, "bb")
	receive(t, fresh, "bb")
	send(t, old, "c")
	receive(t, old, "c")
	assert.Equal(t, []int64{2, 2}, []int64{first.got.Load(), second.got.Load()})
	require.Error(t, p.Turn("nowhere"))
}
