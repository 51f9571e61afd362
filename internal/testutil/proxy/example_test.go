package proxy_test

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
)

// A link is cut, and mended.
func Example() {
	server, err := net.Listen("tcp", "127.0.0.1:0") // as a rule a Redis
	if err != nil {
		panic(err)
	}
	defer func() { _ = server.Close() }()
	go func() {
		conn, err := server.Accept()
		if err == nil {
			_, _ = io.Copy(conn, conn) // what comes goes back
			_ = conn.Close()
		}
	}()
	link, err := proxy.New(server.Addr().String())
	if err != nil {
		panic(err)
	}
	defer link.Close()
	conn, err := net.Dial("tcp", link.Addr())
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()

	ping := func(patience time.Duration) (string, error) {
		_ = conn.SetDeadline(time.Now().Add(patience))
		if _, err := io.WriteString(conn, "PING"); err != nil {
			return "", err
		}
		reply := make([]byte, 4)
		_, err := io.ReadFull(conn, reply)
		return string(reply), err
	}
	link.Blackhole(proxy.Both)
	_, err = ping(100 * time.Millisecond)
	fmt.Println("cut:", err != nil)
	link.Heal()
	fmt.Println(ping(10 * time.Second))
	// Output:
	// cut: true
	// PING <nil>
}
