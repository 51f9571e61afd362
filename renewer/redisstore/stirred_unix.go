//go:build unix

package redisstore

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"
)

// socketOf is a connection's socket; nil if it is not known.
func socketOf(conn net.Conn) syscall.RawConn {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// stirred reports whether anything has come on a connection on which nothing is asked: its end, or
// what announces that, as over TLS. It looks without reading.
func stirred(conn net.Conn) (came bool) {
	err := socketOf(conn).Control(func(fd uintptr) {
		var next [1]byte
		_, _, err := syscall.Recvfrom(int(fd), next[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		came = !errors.Is(err, syscall.EAGAIN)
	})
	return came || err != nil
}
