package redisstore_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	contract "github.com/lockbeat/lockbeat/renewer/store"
)

// rogue is a server that answers as it likes, one reply a command.
type rogue struct {
	replies []string // to commands that the store sends, in turn, over and over
	channel string   // what it publishes once a client has subscribed
	message string
	// ends its connections: a client that is closed while it dials leaves one
	// open. May be nil
	life context.Context
}

// client is one of that server alone.
func (r *rogue) client(t testing.TB) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"rogue:1"}, DialCtxFn: r.dial, DisableCache: true,
		ForceSingleClient: true, DisableRetry: true,
		AlwaysPipelining: true, PipelineMultiplex: -1,
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

// dial connects to it without a network.
func (r *rogue) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	client, server := net.Pipe()
	if r.life != nil {
		context.AfterFunc(r.life, func() { _ = server.Close() })
	}
	go converse(server, r.reply())
	return client, nil
}

// reply is what it answers on a connection.
func (r *rogue) reply() func(words []string) string {
	n := 0
	return func(words []string) string {
		switch strings.ToUpper(words[0]) {
		case "HELLO":
			return "%1\r\n$5\r\nproto\r\n:3\r\n"
		case "CLIENT", "PING":
			return "+OK\r\n"
		case "SUBSCRIBE":
			reply := ""
			for i, channel := range words[1:] {
				reply += ">3\r\n" + bulk("subscribe") + bulk(channel) + fmt.Sprintf(":%d\r\n", i+1)
			}
			return reply + ">3\r\n" + bulk("message") + bulk(r.channel) + bulk(r.message)
		default:
			n++
			return r.replies[(n-1)%len(r.replies)]
		}
	}
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func readCommand(in *bufio.Reader) (words []string, err error) {
	number := func(kind string) (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, kind)))
	}
	n, err := number("*")
	for range n {
		size, err := number("$")
		if err != nil {
			return nil, err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, err
}

// resp makes any reply of RESP3 out of any bytes, three deep at most.
func resp(raw []byte, depth int) (reply string, rest []byte) {
	if len(raw) == 0 {
		return "_\r\n", nil
	}
	kind, raw := raw[0], raw[1:]
	n := min(int(kind>>4), len(raw))
	line := func() string {
		text := strings.NewReplacer("\r", "", "\n", "").Replace(string(raw[:n]))
		raw = raw[n:]
		return text
	}
	switch kind % 10 {
	case 0:
		number := 0
		for _, b := range raw[:min(n, 8)] {
			number = number<<8 | int(b)
		}
		return fmt.Sprintf(":%d\r\n", number), raw[min(n, 8):]
	case 1:
		return bulk(string(raw[:n])), raw[n:]
	case 2:
		return "-" + line() + "\r\n", raw
	case 3:
		return "+" + line() + "\r\n", raw
	case 4:
		return "#t\r\n", raw
	case 5:
		return ",1.5\r\n", raw
	case 6, 7:
		if depth == 3 {
			return "*0\r\n", raw
		}
		of := ""
		for range n {
			var one string
			one, raw = resp(raw, depth+1)
			of += one
		}
		return fmt.Sprintf("*%d\r\n%s", n, of), raw
	case 8:
		if depth == 3 {
			return "%0\r\n", raw
		}
		of := ""
		for range 2 * n {
			var one string
			one, raw = resp(raw, depth+1)
			of += one
		}
		return fmt.Sprintf("%%%d\r\n%s", n, of), raw
	default:
		return "_\r\n", raw
	}
}

// Lengths that the client allocates as they are announced ended the process.
func TestImpossibleLengths(t *testing.T) {
	t.Parallel()
	const huge = "9223372036854775807\r\n"
	for _, reply := range []string{
		"$" + huge, "*" + huge, "%" + huge, "%-1\r\n", "$-2\r\n", "$?\r\n;-2\r\n",
		"*1\r\n$" + huge, strings.Repeat("*1\r\n", 1000),
	} {
		server := &rogue{replies: []string{reply}, life: t.Context()}
		option, err := redisstore.ClientOption(rueidis.ClientOption{
			InitAddress: []string{"rogue:1"}, DialCtxFn: server.dial, ForceSingleClient: true,
		}, time.Minute)
		require.NoError(t, err)
		client, err := rueidis.NewClient(option)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		store := storeOn(t, client) // it may pass
		for range 20 {
			g := acquire(t, store, claim("a", "a", time.Minute))
			require.ErrorContains(t, g.Err, "impossible length")
			require.NotErrorIs(t, g.Err, renewer.ErrRejected)
		}
	}
}

// Whatever a server answers to the store's own questions (scripts, INFO, CONFIG
// GET, WAIT) and publishes on whatever channel: no panic, every item an answer,
// and a grant only where there is a token.
func FuzzServer(f *testing.F) {
	f.Add([]byte{0x16, 0, 1}, []byte{0x10, 7}, "lockbeat:{a}:freed", "")
	f.Add([]byte{0x31, 'a', 'b', 'c'}, []byte{0x36, 0x31, 'x', 'y', 'z', 0x10, 5, 0x10, 9}, "",
		strings.Repeat("a", 40)+" ")
	f.Add([]byte("\xf1run_id:abc\r\n"), []byte("\xf2NOPERM user"), "x", "\n")
	f.Add([]byte{0x28, 0x31, 'a', 'b', 'c', 0x10, 1}, []byte{0x20, 1, 0}, "lockbeat:{a}:freed",
		strings.Repeat("0", 81))
	seen := "\x56\x1e\x03\x1e\x04\x15x\x1e\x10\x78\x06\x0a\x24\x18\x1e\x40\x00"
	f.Add([]byte("\x24\x09"+seen), []byte("\x24\x1e\x09"+seen), "", "")
	f.Fuzz(func(t *testing.T, one, two []byte, channel, message string) {
		server := &rogue{channel: channel, message: message}
		for _, raw := range [][]byte{one, two} {
			reply, _ := resp(raw, 0)
			server.replies = append(server.replies, reply)
		}
		store, err := redisstore.NewEngine(server.client(t), redisstore.Replicas(len(one)%2))
		if err != nil {
			require.ErrorIs(t, err, renewer.ErrRejected)
			return
		}
		defer store.Close()
		ctx := within(t, time.Second)
		stop := store.Watch("a", false, func(error) {})
		defer stop()
		waits := claim("a", "a", time.Minute)
		waits.Place = 1
		claims := []contract.Claim{waits, claim("b", "a", time.Minute), claim("c", "a", time.Minute)}
		for _, claims := range [][]contract.Claim{claims[:1], claims[:1], claims} {
			grants := store.Acquire(ctx, claims)
			require.Len(t, grants, len(claims))
			for _, g := range grants {
				require.Equal(t, g.Status == contract.StatusHeld, g.Fence > 0)
				require.Equal(t, g.Status == contract.StatusUnknown, g.Err != nil)
			}
		}
		holds := []contract.Hold{hold("a", "a", time.Minute), hold("b", "a", time.Minute)}
		for _, answers := range [][]contract.Answer{
			store.Renew(ctx, holds),
			store.Release(ctx, holds),
		} {
			require.Len(t, answers, len(holds))
			for _, a := range answers {
				require.Equal(t, a.Status == contract.StatusUnknown, a.Err != nil)
			}
		}
		seen := store.Prepare(ctx, []contract.Term{{Name: "a", Fence: 7, TTL: time.Minute}})
		require.Equal(t, seen[0].Status == contract.StatusUnknown, seen[0].Err != nil)
		wrote := store.Write(ctx, []contract.Record{{Name: "a", Fence: 7, Seq: 1, TTL: time.Minute}})
		require.Equal(t, wrote[0].Status == contract.StatusUnknown, wrote[0].Err != nil)
	})
}
