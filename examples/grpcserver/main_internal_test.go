package main

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/examples/internal/ledger"
	"github.com/lockbeat/lockbeat/examples/internal/stage"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run tells a story and returns what was printed.
func run(
	ctx context.Context, t *testing.T, set stage.Setting, tell stage.Story,
) (text string, held bool) {
	t.Helper()
	var out bytes.Buffer
	set.Program, set.Out = "grpcserver", &out
	held, err := stage.Play(ctx, set, tell)
	require.NoError(t, err)
	return out.String(), held
}

func TestStory(t *testing.T) {
	t.Parallel()
	text, held := run(t.Context(), t, stage.Setting{}, tell)
	require.True(t, held, text)
	for _, code := range []codes.Code{
		codes.OK, codes.Aborted, codes.InvalidArgument,
		codes.Unavailable, codes.FailedPrecondition,
	} {
		assert.Contains(t, text, code.String())
	}
	for _, reason := range []string{
		grpcmw.ReasonBusy, grpcmw.ReasonKey, grpcmw.ReasonUnavailable,
		grpcmw.ReasonLost,
	} {
		assert.Contains(t, text, "ErrorInfo: "+reason)
	}
	assert.Contains(t, text, "960 are left; the bank's books are wrong by 0\n")
	assert.NotContains(t, text, "BROKEN")
	assert.NotContains(t, text, "\x1b", "colours are for terminals")
	assert.LessOrEqual(t, strings.Count(text, "\n"), 120, "a newcomer reads it in a minute")
	for l := range strings.Lines(text) {
		assert.LessOrEqual(t, len(l), 130, "it fits on a screen: %s", l)
	}
}

// On a server of the user's, nothing is left behind, and nothing that was there is touched.
func TestStoryOnRealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	require.NoError(t, server.Do("SET", "precious", "1").Error())
	text, held := run(t.Context(), t, stage.Setting{Redis: server.Addr()}, tell)
	require.True(t, held, text)
	keys, err := server.Do("KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	assert.Equal(t, []string{"precious"}, keys)
}

// With locks that do not exclude each other, the verdict says so.
func TestServersWithLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	text, held := run(t.Context(), t, stage.Setting{Apart: true}, tell)
	require.False(t, held, text)
	_, verdict, _ := strings.Cut(text, "It did not hold: ")
	for _, claim := range []string{
		"another one on the other server waits its turn: OK",
		"others are kept out of its account between two messages: OK",
		"race with the lock: the balance is right", "most transfers at once",
	} {
		assert.Contains(t, verdict, claim)
	}
	assert.NotContains(t, verdict, "race without",
		"what is wrong without the lock is none of its faults")
	assert.NotContains(t, verdict, "locks left behind")
}

// interrupting calls stop when a text is printed.
type interrupting struct {
	bytes.Buffer

	at   string
	stop func()
}

func (w *interrupting) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.at)) {
		w.stop()
	}
	return w.Buffer.Write(p)
}

// Interrupted in the middle, it says that it did not come to its end, and cleans up all the same.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &interrupting{at: "[2]", stop: cancel}
	held, err := stage.Play(ctx, stage.Setting{Program: "test", Redis: server.Addr(), Out: out},
		tell)
	require.NoError(t, err)
	require.False(t, held)
	assert.Contains(t, out.String(), "It did not hold: "+context.Canceled.Error())
	assert.NotContains(t, out.String(), "\n3. ")
	assert.Regexp(t, `locks left behind +0 +ok`, out.String())
	size, err := server.DBSize()
	require.NoError(t, err)
	assert.Zero(t, size)
}

// What is printed as a command is what the program sends, to a shell as well.
func TestCommands(t *testing.T) {
	t.Parallel()
	conn, err := grpc.NewClient("127.0.0.1:9",
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	c := call{
		conn, bank.Bank_Transfer_FullMethodName,
		&bank.TransferRequest{From: "ada", To: "bob", Amount: 1, Seconds: 0.02},
	}
	out, err := exec.CommandContext(t.Context(), "sh", "-c",
		`grpcurl() { printf '%s\n' "$@"; }; `+c.grpcurl()).Output()
	require.NoError(t, err)
	assert.Equal(t, "-plaintext\n-d\n"+`{"from":"ada","to":"bob","amount":1,"seconds":0.02}`+
		"\n127.0.0.1:9\nbank.Bank/Transfer\n", string(out))
}

// A stream's lock is that of its first message, so a second account
// is refused rather than served without one.
func TestCounterIsForOneAccount(t *testing.T) {
	t.Parallel()
	_, held := run(t.Context(), t, stage.Setting{},
		func(ctx context.Context, s *stage.Stage) error {
			p := &play{Stage: s, ledger: ledger.New(map[string]int{
				"ada": stage.Funds,
				"bob": stage.Funds,
			})}
			addr, err := p.serve("bank-1")
			require.NoError(t, err)
			conn, err := p.dial(addr)
			require.NoError(t, err)
			stream, err := bank.NewBankClient(conn).Counter(ctx)
			require.NoError(t, err)
			require.NotNil(t, p.ask(stream))
			require.NoError(t,
				stream.Send(&bank.TransferRequest{From: "bob", To: "ada", Amount: 10}))
			_, err = stream.Recv()
			assert.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
			left, err := p.ledger.Balance("bob")
			assert.Equal(t, stage.Funds+10, left)
			return err
		})
	assert.True(t, held)
}
