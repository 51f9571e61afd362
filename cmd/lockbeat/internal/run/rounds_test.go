//go:build linux

package run_test

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

// family is a command with children of every kind: in its group, in a session
// of their own, left by their parents, without its environment, and deaf to
// SIGTERM. One more comes every few milliseconds, and its parent ends. Each has
// the mark in its arguments.
const family = `
	trap "" TERM HUP INT
	sleep 1000.$MARK &
	setsid sh -c 'sleep 1000.$MARK & exec sleep 1000.$MARK' &
	(setsid sh -c 'sleep 1000.$MARK & sleep 1000.$MARK & exec sleep 1000.$MARK' &)
	env -i sleep 1000.$MARK &
	(env -i setsid sleep 1000.$MARK &)
	(while :; do (setsid sleep 1000.$MARK &); sleep 0.01; done) &
	echo up
	while :; do sleep 1; done`

// attack is what is done to the two processes that watch over a command, or to
// their link.
type attack struct {
	name   string
	do     func(p *program, link *proxy.Proxy)
	status []int // of the wrapper, if it lives
}

// attacks lists them. With the wrapper killed or stopped the guard ends the
// command; with the guard killed or stopped the wrapper does.
var attacks = []attack{
	{"wrapper killed", of(func(p *program) { p.signal(syscall.SIGKILL) }), []int{-1}},
	{"wrapper stopped", of(func(p *program) { p.signal(syscall.SIGSTOP) }), []int{76}},
	{"guard killed", of(func(p *program) { p.attackGuard(syscall.SIGKILL) }), []int{70}},
	{"guard stopped", of(func(p *program) { p.attackGuard(syscall.SIGSTOP) }), []int{70}},
	{"wrapper stopped, then killed", of(func(p *program) {
		p.signal(syscall.SIGSTOP)
		p.signal(syscall.SIGKILL)
	}), []int{-1}},
	{"command killed", of(func(p *program) { p.signal(syscall.SIGUSR1) }), []int{138}},
	{"link cut", func(_ *program, link *proxy.Proxy) { link.Blackhole(proxy.Both) }, []int{76}},
}

// of is what is done to the processes alone.
func of(do func(p *program)) func(*program, *proxy.Proxy) {
	return func(p *program, _ *proxy.Proxy) { do(p) }
}

func (p *program) attackGuard(sig syscall.Signal) {
	g := p.guard()
	require.NoError(p.tb, g.Signal(sig))
	require.NoError(p.tb, g.Release())
}

// When a lock can be another's, no process of the command is left, whatever has
// been killed or stopped meanwhile.
//
//	go test ./cmd/lockbeat/internal/run -run Rounds -run.rounds 1000 -timeout 60m
func TestRounds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	n := suite.Size(len(attacks), 20*len(attacks))
	if *rounds > 0 {
		n = *rounds
	}
	var done, left atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d rounds of %d, %d processes left", done.Load(), n, left.Load())
	})
	for i := range n {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			left.Add(int64(round(t, server, fmt.Sprint("k", i), attacks[i%len(attacks)])))
			done.Add(1)
		})
	}
}

// round attacks one program, and returns how many processes of its command were
// left when its lock could be another's.
func round(t *testing.T, server *redistest.Server, name string, a attack) int {
	t.Helper()
	link := proxy.Start(t, server.Addr())
	p := start(t, link.Addr(), "--name="+name, "--ttl=3s", "--grace="+pick("0s", "100ms", "700ms"),
		"--", "sh", "-c", family)
	p.expect("up")
	<-time.After(time.Duration(rand.IntN(50)) * time.Millisecond) // somewhere in what goes on
	a.do(p, link)
	awaitFree(t, server, name)
	left := p.command()
	assert.Empty(t, left, "%s: left when the lock is free", a.name)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	assert.Contains(t, a.status, p.status(), "%s: %s", a.name, &p.stderr)
	return len(left)
}

func pick(from ...string) string { return from[rand.IntN(len(from))] }
