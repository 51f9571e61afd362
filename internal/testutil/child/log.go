package child

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const pollEvery = 5 * time.Millisecond

// AwaitLog returns nil once the process has said text in its log.
func (p *Process) AwaitLog(text string, limit time.Duration) error {
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for !strings.Contains(Tail(p.log), text) {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while starting", filepath.Base(p.cmd.Path))
		case <-timeout.C:
			return fmt.Errorf("%s is not ready within %v", filepath.Base(p.cmd.Path), limit)
		case <-poll.C:
		}
	}
	return nil
}

// Tail returns the end of a log, at most 16 KiB.
func Tail(path string) string {
	const most = 16 << 10
	text, err := os.ReadFile(path)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	return string(text[max(0, len(text)-most):])
}
