package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
)

// replies are those of a server, one after the other, of every kind.
const replies = "+OK\r\n-ERR no\r\n:-7\r\n$5\r\nhello\r\n$0\r\n\r\n$-1\r\n*-1\r\n*0\r\n%0\r\n_\r\n" +
	"#t\r\n,1.5\r\n(12\r\n!3\r\nERR\r\n=7\r\ntxt:abc\r\n~1\r\n*2\r\n:1\r\n*1\r\n$1\r\na\r\n" +
	"%1\r\n+a\r\n*1\r\n_\r\n|1\r\n+ttl\r\n:7\r\n+value\r\n*1\r\n|1\r\n+a\r\n|0\r\n:1\r\n:2\r\n" +
	">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$4\r\n\r\n$9\r\n"

func TestReplies(t *testing.T) {
	t.Parallel()
	for size := 1; size <= len(replies); size++ {
		check := wire.NewCheck()
		for n := range 3 {
			for rest := replies; rest != ""; rest = rest[min(size, len(rest)):] {
				assert.NoError(t, check([]byte(rest[:min(size, len(rest))])), n)
			}
		}
		assert.Error(t, check([]byte("$-2\r\n")), "the check is between two replies")
	}
}

func TestImpossibleReplies(t *testing.T) {
	t.Parallel()
	const huge = "9223372036854775807"
	bad := []string{
		"*1\r\n$" + huge + "\r\n", "$99999999999999999999999\r\n", "%-1\r\n", "|-1\r\n",
		"$?\r\n;-9\r\n", "$\r\n", "$-\r\n", "$5x\n", "$5\n", "$ 5\r\n", "$--1\r\n", "$-0\r\n",
		strings.Repeat("*1\r\n", 33), strings.Repeat("*2\r\n:1\r\n", 33),
		strings.Repeat("|1\r\n+a\r\n:1\r\n", 33),
		"*1\r\n" + strings.Repeat("*1000000\r\n", 2), // each is one that may be
	}
	for _, kind := range "$!=*~>%|" {
		bad = append(bad, fmt.Sprintf("%c%s\r\n", kind, huge), fmt.Sprintf("%c-2\r\n", kind),
			fmt.Sprintf("%c100000000\r\n", kind))
	}
	for _, text := range bad {
		assert.Error(t, wire.NewCheck()([]byte(text)), "%.40q", text)
	}
	for begun, size := range map[string]int{"+": 65 << 20, "*2\r\n$40000000\r\n": 40_000_000} {
		check, part := wire.NewCheck(), []byte(strings.Repeat("a", 10_000))
		err := check([]byte(begun))
		for n := 0; n < size && err == nil; n += len(part) {
			err = check(part)
		}
		if err == nil {
			err = check([]byte("\r\n$40000000\r\n"))
		}
		assert.Error(t, err, "%q", begun)
	}
	assert.NoError(t, wire.NewCheck()([]byte("HTTP/1.1 400 Bad Request\r\n")), "the client says so")
}

func BenchmarkCheck(b *testing.B) {
	check := wire.NewCheck()
	reply := []byte("*6\r\n:1\r\n:1764291234567890\r\n$40\r\n" + strings.Repeat("a", 40) +
		"\r\n:15000\r\n_\r\n:3\r\n")
	for b.Loop() {
		if err := check(reply); err != nil {
			b.Fatal(err)
		}
	}
}
