//go:build !unix

package redisstore

import (
	"net"
	"syscall"
)

// socketOf is a connection's socket; nil if it is not known, as here.
func socketOf(net.Conn) syscall.RawConn { return nil }

// stirred is asked of sockets only.
func stirred(net.Conn) bool { return true }
