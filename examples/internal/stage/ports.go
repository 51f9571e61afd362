package stage

import (
	"fmt"
	"net"
	"strconv"
)

// ports are where servers listen.
type ports struct {
	host string
	next int // 0 for any
}

// parsePorts makes sense of a "host:port" for the first server; "" is any port on loopback.
func parsePorts(listen string) (p ports, err error) {
	if listen == "" {
		return ports{host: "127.0.0.1"}, nil
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return p, fmt.Errorf("-listen: %w; give host:port", err)
	}
	first, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return p, fmt.Errorf("-listen: %q is no port; give host:port, the port a number up to "+
			"65535", port)
	}
	return ports{host, int(first)}, nil
}

// take returns the address for the next server.
func (p *ports) take() string {
	addr := net.JoinHostPort(p.host, strconv.Itoa(p.next))
	if p.next > 0 {
		p.next++
	}
	return addr
}

// Listener returns one for the next server.
func (s *Stage) Listener() (net.Listener, error) { return net.Listen("tcp", s.ports.take()) }
