//go:build unix

package run_test

import (
	"flag"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/cmd/lockbeat/internal/cli"
	"github.com/lockbeat/lockbeat/internal/testutil/suite"
)

// asProgram is set for a process that is to be the program rather than its
// tests.
const asProgram = "TEST_AS_PROGRAM"

// rounds is for `go test ./cmd/lockbeat/internal/run -run Rounds -run.rounds
// 1000`.
var rounds = flag.Int("run.rounds", 0, "how often the two processes are killed; 0: as suite says")

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
	}
	// Under nohup these tests ignore SIGHUP, and so would the programs that
	// they start.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	suite.AtOnce(4)
	goleak.VerifyTestMain(m)
}
