package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/internal/testutil/child"
)

const (
	startTimeout = 20 * time.Second // loading a large AOF on a busy machine
	pollEvery    = 5 * time.Millisecond
)

var (
	errEnded   = errors.New("redis-server ended while starting")
	errPortUse = errors.New("the port is in use")
)

// Each process takes ports from a block of its own, as far as they go round: no
// other process of these tests takes the port of a server that is down and is
// to come back on it. They are below those that the system gives to who asks
// for any; and so are those of the nodes of clusters for each other, which are
// 10000 above their own: only Redis 7 lets one choose them.
const (
	lowestPort    = 12_000
	portsInABlock = 250
	blocksOfPorts = 40
)

// block is a range of ports.
type block struct {
	first int
	guard net.Listener // on the first port, for as long as the process lives
	taken atomic.Int64
}

var ownBlock = sync.OnceValues(func() (*block, error) { return takeBlock(os.Getpid()) })

// takeBlock takes a block that no process has, the n-th if that is free.
func takeBlock(n int) (*block, error) {
	for i := range blocksOfPorts {
		first := lowestPort + (n+i)%blocksOfPorts*portsInABlock
		if guard, err := listen(first); err == nil {
			return &block{first: first, guard: guard}, nil
		}
	}
	return nil, fmt.Errorf("redistest: %d processes have blocks of ports from %d on: end those "+
		"that are left from other tests", blocksOfPorts, lowestPort)
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
}

// freePort returns a loopback port on which no process listened a moment ago.
func freePort() (int, error) {
	own, err := ownBlock()
	if err != nil {
		return 0, err
	}
	const ports = portsInABlock - 1 // without the guard's
	for range ports {
		port := own.first + 1 + int(own.taken.Add(1)%ports)
		if l, err := listen(port); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("redistest: all ports from %d to %d are taken", own.first,
		own.first+ports)
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

// answers reports whether the server on addr is ready and is process pid.
// Without pid, another server that took the port first would be mistaken for
// ours. A server that wants a password first can't be asked, and is believed.
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
