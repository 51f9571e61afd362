//go:build !unix

package redisstore

import "net"

// peerGone reports whether the other side of a connection has closed it, which is not known here.
func peerGone(net.Conn) bool { return false }
