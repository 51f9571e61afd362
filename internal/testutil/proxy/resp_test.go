package proxy_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/internal/testutil/proxy"
)

var values = []string{
	"+OK\r\n", "-ERR no\r\n", ":1\r\n", "$5\r\nhello\r\n", "$0\r\n\r\n", "$-1\r\n", "*0\r\n",
	"*-1\r\n", "$4\r\n\r\n\r\n\r\n",
	"*2\r\n$1\r\na\r\n*1\r\n:2\r\n", "%1\r\n+k\r\n+v\r\n", "~1\r\n_\r\n", ",1.5\r\n", "#t\r\n",
	"(123\r\n", "=7\r\ntxt:abc\r\n",
	"!5\r\nERR x\r\n", ">3\r\n+message\r\n+c\r\n+m\r\n", "|1\r\n+ttl\r\n:1\r\n+value\r\n",
}

func TestFramesAreWholeValuesHoweverTheyArrive(t *testing.T) {
	t.Parallel()
	stream := []byte(strings.Join(values, ""))
	for chunk := 1; chunk <= len(stream); chunk++ {
		assert.Equal(t, values, proxy.Cut(stream, chunk), "chunks of %d", chunk)
	}
}

// Other protocols pass.
func FuzzFramer(f *testing.F) {
	for _, text := range []string{
		strings.Join(values, ""), "GET / HTTP/1.1\r\n\r\n", "PING\r\n+x", "\x00\x01", "$x\r\n",
		"*9999999999999999999\r\n", "*1000000000\r\n", "$-2\r\n", "*-2\r\nrest", "+never ends",
		strings.Repeat("*1\r\n", 100), "+" + strings.Repeat("x", 1<<17), "*1\r\nx\r\n", "\r\n",
	} {
		f.Add([]byte(text), 1)
		f.Add([]byte(text), 7)
	}
	f.Fuzz(func(t *testing.T, stream []byte, chunk int) {
		frames := proxy.Cut(stream, max(1, chunk))
		assert.Equal(t, string(stream), strings.Join(frames, ""), "nothing is lost or changed")
		assert.False(t, slices.Contains(frames, ""), "no frame is empty")
	})
}
