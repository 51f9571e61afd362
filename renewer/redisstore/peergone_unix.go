//go:build unix

package redisstore

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// peerGone reports whether the other side of a connection has closed it. It looks without reading.
func peerGone(conn net.Conn) (gone bool) {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		var next [1]byte
		n, _, err := syscall.Recvfrom(int(fd), next[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil ||
			err != nil && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.EINTR)
	})
	return gone || err != nil
}
