package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// errBuild means that something could not be compiled.
var errBuild = errors.New("does not compile")

// compile compiles the package that a fault is in.
func (t tree) compile(ctx context.Context, f fault) error {
	return t.command(ctx, "build", "./"+path.Dir(f.file))
}

// build compiles a package's tests.
func (t tree) build(ctx context.Context, p pkg, flags ...string) (binary string, err error) {
	binary = filepath.Join(filepath.Dir(t.root), strings.ReplaceAll(p.folder, "/", "-")+".test")
	return binary, t.command(ctx,
		slices.Concat([]string{"test", "-c", "-vet=off", "-o", binary}, flags,
			[]string{"./" + p.folder})...)
}

// command runs a go command that compiles something of the tree.
func (t tree) command(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = t.root, environment(t.temp)
	out, err := cmd.CombinedOutput()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%s %w:\n%s", args[len(args)-1], errBuild, out)
	}
	return nil
}

// outcome is how a run of tests ended.
type outcome struct {
	failed bool
	hung   bool // it was over its time
	// the first test that failed, and others that did before all was over; none if all fell at once
	tests  []string
	output string // the end of what it printed
	took   time.Duration
}

var failure = regexp.MustCompile(`^--- FAIL: (\S+)`)

// order is what to run.
type order struct {
	p       pkg
	binary  string
	flags   []string
	timeout time.Duration
	whole   bool // do not end it at the first failure
}

// run runs a test binary, and ends it, with all that it started, at the first failure or after the
// timeout.
func (t tree) run(ctx context.Context, o order) (result outcome, err error) {
	begin := time.Now()
	temp, err := os.MkdirTemp(t.temp, "")
	if err != nil {
		return outcome{}, err
	}
	// tests that were ended did not remove their files
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	cmd := exec.Command(o.binary,
		append([]string{
			"-test.failfast", "-test.paniconexit0",
			"-test.timeout=" + (2 * o.timeout).String(),
		}, o.flags...)...)
	cmd.Dir, cmd.Env = filepath.Join(t.root, o.p.folder), environment(temp)
	// servers and processes that tests start belong to it too
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	// fails only if none is left
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	read := make(chan outcome)
	go func() {
		if o.whole {
			read <- follow(reader, func() {})
			return
		}
		read <- follow(reader, kill)
	}()
	var hung, cancelled bool
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	timer := time.NewTimer(o.timeout)
	defer timer.Stop()
	select {
	case err = <-ended:
	case <-timer.C:
		hung = true
	case <-ctx.Done():
		cancelled = true
	}
	// what the binary left behind included; it holds nothing else, since the group is its own
	kill()
	if hung || cancelled {
		err = <-ended
	}
	// it passed, and left something behind that held on to its output
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	_ = writer.Close()
	result = <-read
	if cancelled {
		return outcome{}, ctx.Err()
	}
	result.hung, result.took = hung, time.Since(begin)
	result.failed = err != nil || hung
	return result, nil
}

// follow reads what a test binary prints, and ends it at the first failure.
func follow(from io.Reader, kill func()) outcome {
	var o outcome
	var tail bytes.Buffer
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadString('\n')
		if tail.Len() > 64<<10 {
			tail.Reset()
		}
		tail.WriteString(line)
		if m := failure.FindStringSubmatch(line); m != nil {
			o.tests = append(o.tests, m[1])
			kill()
		}
		if err != nil {
			o.output = tail.String()
			return o
		}
	}
}

// onlyTests is the flag that runs these tests alone.
func onlyTests(names []string) string { return "-test.run=^(" + strings.Join(names, "|") + ")$" }
