//go:build linux

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// accounts are those that honest clients use, and attackers too.
const accounts = 20

// attacker has one connection, and returns when it has done its worst with that.
type attacker func(conn net.Conn, i int)

// kinds are how attackers are shared out, by weight.
var kinds = []struct {
	weight int
	attack attacker
}{
	{25, slowHeaders},
	{30, slowBody},
	{10, leaveWithAByteUnsent},
	{5, leaveTheLine},
	{1, manyNames},
	{1, slowUnderTheLock},
	{3, newKeys},
	{25, idle},
}

// attack is the attackers' process: args are the server's address and how many they are. It ends
// when its stdin does.
func attack(args []string, stdin io.Reader) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	// They are to be thought of as on other machines, so they take only what the others leave.
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19); err != nil {
		return err
	}
	go func() {
		for i := range n {
			go besiege(args[0], i, kindOf(i))
			<-time.After(2 * time.Millisecond) // 10,000 are there after twenty seconds
		}
	}()
	_, err = io.Copy(io.Discard, stdin)
	return err
}

func kindOf(i int) attacker {
	i %= 100
	for _, k := range kinds {
		if i -= k.weight; i < 0 {
			return k.attack
		}
	}
	return idle
}

// refused counts connections that could not be made.
var refused atomic.Int64

// besiege comes back whenever the server has got rid of it.
func besiege(addr string, i int, a attacker) {
	for {
		conn, err := net.DialTimeout("tcp", addr, 10*time.Second)
		if err != nil {
			refused.Add(1)
		} else {
			a(conn, i)
			_ = conn.Close()
		}
		pause(2 * time.Second)
	}
}

// pause sleeps for about d.
func pause(d time.Duration) { <-time.After(d/2 + rand.N(d)) }

// head is a request's, up to its body.
func head(path string, length int) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nX-Client: attacker\r\nIdempotency-Key: "+
		"%d\r\nContent-Length: %d\r\n\r\n",
		path, rand.Uint64(), length)
}

func transferOf(i int) string { return fmt.Sprintf("/accounts/%d/transfer", i%accounts) }

// trickle sends text byte by byte, until the server has had enough.
func trickle(conn net.Conn, text string) {
	for i := range len(text) {
		if _, err := io.WriteString(conn, text[i:i+1]); err != nil || gone(conn) {
			return
		}
		pause(2 * time.Second)
	}
}

// gone reports whether the server has answered, or closed the connection.
func gone(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	n, err := conn.Read(make([]byte, 256))
	timeout, ok := err.(net.Error) //nolint:errorlint // the connection's own
	return n > 0 || !ok || !timeout.Timeout()
}

func slowHeaders(conn net.Conn, i int) { trickle(conn, head(transferOf(i), 0)) }

func slowBody(conn net.Conn, i int) {
	if _, err := io.WriteString(conn, head(transferOf(i), 1000)); err == nil {
		trickle(conn, strings.Repeat("x", 1000))
	}
}

func leaveWithAByteUnsent(conn net.Conn, i int) {
	_, _ = io.WriteString(conn, head(transferOf(i), 1))
	pause(200 * time.Millisecond)
}

func leaveTheLine(conn net.Conn, i int) {
	_, _ = io.WriteString(conn, head(transferOf(i), 0))
	pause(2 * time.Millisecond)
}

// manyNames asks for as many locks as fit in 64 KiB.
func manyNames(conn net.Conn, _ int) {
	var b strings.Builder
	b.WriteString(`{"Accounts":["`)
	for b.Len() < 64<<10 {
		fmt.Fprintf(&b, `%x","`, rand.Uint64())
	}
	b.WriteString(`"]}`)
	_, _ = io.WriteString(conn, head("/batches", b.Len())+b.String())
	answer(conn)
	pause(10 * time.Second)
}

// slowUnderTheLock sends enough of a body to have the lock, one of its own, and then next to
// nothing.
func slowUnderTheLock(conn net.Conn, i int) {
	const size = 1 << 20
	if _, err := io.WriteString(conn,
		head(fmt.Sprintf("/accounts/%d/transfer", 1000+i), size)); err != nil {
		return
	}
	if _, err := io.WriteString(conn, strings.Repeat("x", size/2)); err == nil {
		trickle(conn, strings.Repeat("x", size/2))
	}
}

// newKeys sends requests that each want an answer stored.
func newKeys(conn net.Conn, _ int) {
	for range 10 {
		if _, err := io.WriteString(conn, head("/orders", 0)); err != nil {
			return
		}
		answer(conn)
		pause(5 * time.Second)
	}
}

// idle is just there.
func idle(conn net.Conn, _ int) { answer(conn) }

// answer waits for what the server says.
func answer(conn net.Conn) {
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	_, _ = conn.Read(make([]byte, 4096))
}
