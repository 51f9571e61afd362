//go:build unix && !linux

package child

// awaitStopped has no portable equivalent that leaves the exit status
// to exec.Cmd.Wait; the signal takes effect soon.
func (*Process) awaitStopped() error { return nil }
