package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
)

// childProcess is this program once more, as a process of its own. Lines go in, JSON comes out.
type childProcess struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  *json.Decoder
}

// startChild starts a child, which ctx kills when it ends. Its end must be waited for.
func startChild(ctx context.Context, s childSpec) (*childProcess, error) {
	return startProgram(ctx, "", s)
}

// startProgram is startChild with the program of another checkout, "" for this one.
func startProgram(ctx context.Context, program string, s childSpec) (*childProcess, error) {
	spec, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if program == "" {
		if program, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	//nolint:gosec // the program is this one, or what the user named
	c := &childProcess{cmd: exec.CommandContext(ctx, program)}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(spec))
	c.cmd.Stderr = os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.said = json.NewDecoder(bufio.NewReader(stdout))
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	return c, nil
}

// end waits until the child has ended, which it does when its input
// does. After an error, which end hands back, it is killed: it may hang.
func (c *childProcess) end(err error) error {
	if err != nil {
		_ = c.cmd.Process.Kill() // fails only if it has ended already
	}
	return errors.Join(err, c.stdin.Close(), c.cmd.Wait())
}
