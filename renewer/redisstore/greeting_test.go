package redisstore_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// A server or a proxy that repeats what it was sent has the password in its
// answer.
func TestServersThatRepeatTheGreeting(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{
		"-ERR unknown command `HELLO`, with args beginning with: `3` `AUTH` `%s`, \r\n",
		"-ERR bad request: HELLO 3 AUTH u %s\r\n",
		"-NOPROTO AUTH u %s\r\n", "-WRONGPASS bad: %s\r\n", "-LOADING bad: %s\r\n",
		"-ERR [\"HELLO\" \"3\" \"AUTH\" \"u\" \"%s\"]\r\n", "!44\r\nLOADING a\nlockbeat: forged line: %s\r\n",
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		t.Cleanup(func() { _ = listener.Close() })
		go func() {
			for conn, err := listener.Accept(); err == nil; conn, err = listener.Accept() {
				go func() {
					defer func() { _ = conn.Close() }()
					r := bufio.NewReader(conn)
					for {
						args, err := readCommand(r)
						switch {
						case err != nil:
							return
						case args[0] == "PING":
							_, err = io.WriteString(conn, "+PONG\r\n")
						default:
							_, err = fmt.Fprintf(conn, answer, sesame)
						}
						if err != nil {
							return
						}
					}
				}()
			}
		}()
		for _, end := range []string{"", "?cluster=true", "?sentinel_master=m"} {
			d, err := redisstore.FromURL("redis://u:" + sesame + "@" + listener.Addr().String() + end)
			require.NoError(t, err)
			d.Option.Sentinel.Password = sesame
			_, err = redisstore.OpenEngine(t.Context(), d)
			require.Error(t, err, answer)
			shown := fmt.Sprintf("%v %+v %#v", err, err, err)
			assert.NotContains(t, shown, sesame, "%q%s", answer, end)
			assert.NotContains(t, err.Error(), "\n")
		}
	}
}
