//go:build unix

package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/lockbeat/lockbeat/testutil/internal/child"
)

const (
	startTimeout = 20 * time.Second // loading a large AOF on a busy machine
	pollEvery    = 5 * time.Millisecond
)

var (
	errEnded   = errors.New("redis-server ended while starting")
	errPortUse = errors.New("the port is in use")
)

// freePort returns a loopback port on which no process listened a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("redistest: find a free port: %w", err)
	}
	addr, err := netip.ParseAddrPort(l.Addr().String())
	return int(addr.Port()), errors.Join(err, l.Close())
}

// awaitReady returns nil once p itself answers on addr.
func awaitReady(p *child.Process, addr, logPath string) error {
	timeout := time.NewTimer(startTimeout)
	defer timeout.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for {
		if answers(addr, p.PID()) {
			return nil
		}
		select {
		case <-p.Done():
			if strings.Contains(child.Tail(logPath), "Address already in use") {
				return errPortUse
			}
			return errEnded
		case <-timeout.C:
			return fmt.Errorf("no answer on %s within %v", addr, startTimeout)
		case <-poll.C:
		}
	}
}

// answers reports whether the server on addr is ready and is process pid. Without pid, another
// server that took the port first would be mistaken for ours. A server that wants a password first
// can't be asked, and is believed.
func answers(addr string, pid int) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	if conn.SetDeadline(time.Now().Add(time.Second)) != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\nINFO server\r\n")); err != nil {
		return false
	}
	lines := bufio.NewScanner(conn)
	if !lines.Scan() || strings.HasPrefix(lines.Text(), "-LOADING") {
		return false
	}
	if strings.HasPrefix(lines.Text(), "-NOAUTH") {
		return true
	}
	for lines.Scan() {
		if id, ok := strings.CutPrefix(lines.Text(), "process_id:"); ok {
			return id == strconv.Itoa(pid)
		}
	}
	return false
}
