package main

import (
	"context"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/examples/internal/demo"
	"github.com/lockbeat/lockbeat/examples/internal/demo/demotest"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStory(t *testing.T) {
	t.Parallel()
	demotest.AtOnce(
		func() {
			text := demotest.Holds(t, demo.Setting{}, tell)
			for _, code := range []codes.Code{
				codes.OK, codes.Aborted, codes.Unavailable,
			} {
				assert.Contains(t, text, code.String())
			}
			for _, reason := range []string{
				grpcmw.ReasonBusy, grpcmw.ReasonUnavailable, grpcmw.ReasonLost,
			} {
				assert.Contains(t, text, "ErrorInfo: "+reason)
			}
			assert.Contains(t, text, "960 are left; the bank's books are wrong by 0\n")
		},
		func() { demotest.Untouched(t, 1, tell) },
		func() { demotest.Interrupted(t, tell) },
		// With locks that do not exclude each other, the verdict says so.
		func() {
			demotest.Breaks(t, demo.Setting{Apart: true}, tell,
				"another one on the other server waits its turn: OK",
				"others are kept out of its account between two messages: OK",
				"race with the lock: the balance is right", "most transfers at once")
		},
	)
}

// What is printed as a command is what the program sends, to a shell as well.
func TestCommands(t *testing.T) {
	t.Parallel()
	conn, err := grpc.NewClient("127.0.0.1:9",
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	c := call(conn, bank.Bank_Transfer_FullMethodName,
		&bank.TransferRequest{From: "ada", To: "bob", Amount: 1, Seconds: 0.02})
	out, err := exec.CommandContext(t.Context(), "sh", "-c",
		`grpcurl() { printf '%s\n' "$@"; }; `+c.Command).Output()
	require.NoError(t, err)
	assert.Equal(t, "-plaintext\n-d\n"+`{"from":"ada","to":"bob","amount":1,"seconds":0.02}`+
		"\n127.0.0.1:9\nbank.Bank/Transfer\n", string(out))
}

// The lock of a stream is that of its first message, so a second account is refused rather than
// served without a lock.
func TestCounterIsForOneAccount(t *testing.T) {
	t.Parallel()
	demotest.Holds(t, demo.Setting{}, func(ctx context.Context, d *demo.Demo) error {
		b, conns, err := open(d)
		require.NoError(t, err)
		stream, err := bank.NewBankClient(conns[0]).Counter(ctx)
		require.NoError(t, err)
		_, err = ask(b, stream, "ada")
		require.NoError(t, err)
		_, err = ask(b, stream, "safe")
		assert.Equal(t, codes.InvalidArgument, status.Code(err), "%v", err)
		left, _, _ := b.Ledger.Account("bob")
		assert.Equal(t, 1, left)
		return nil
	})
}
