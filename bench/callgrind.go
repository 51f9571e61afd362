package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	process "github.com/lockbeat/lockbeat/internal/testutil/child"
)

// callgrind is a server under valgrind's callgrind, which counts the
// instructions that it executes.
type callgrind struct {
	proc  *process.Process
	addr  string
	dir   string
	dumps int
	sum   float64 // of all dumps
}

func openCallgrind(ctx context.Context) (*callgrind, error) {
	dir, err := os.MkdirTemp("", "lockbeat-bench-")
	if err != nil {
		return nil, err
	}
	c := &callgrind{dir: dir}
	if err := c.start(ctx); err != nil {
		c.close()
		return nil, fmt.Errorf("redis-server under valgrind: %w", err)
	}
	return c, nil
}

func (c *callgrind) start(ctx context.Context) error {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.addr = free.Addr().String()
	_, port, err := net.SplitHostPort(c.addr)
	if err := errors.Join(err, free.Close()); err != nil {
		return err
	}
	log := filepath.Join(c.dir, "log")
	// What it does by itself, once a second, is not counted: it toggles what
	// was on at the start.
	c.proc, err = process.Start(exec.Command("valgrind", "--tool=callgrind",
		"--toggle-collect=serverCron", "--collect-atstart=yes",
		"--callgrind-out-file="+c.out(), "redis-server", "--port", port, "--bind", "127.0.0.1",
		"--dir", c.dir, "--save", "", "--hz", "1", "--dynamic-hz", "no"), log)
	if err != nil {
		return err
	}
	if err := c.proc.AwaitLog("Ready to accept connections", 30*time.Second); err != nil {
		return fmt.Errorf("%w: %s", err, process.Tail(log))
	}
	return ctx.Err()
}

func (c *callgrind) out() string { return filepath.Join(c.dir, "out") }

// instructions are all that it has executed.
func (c *callgrind) instructions() (float64, error) {
	said, err := exec.Command("vgdb", "--pid="+strconv.Itoa(c.proc.PID()), "dump").CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("vgdb: %w: %s", err, said)
	}
	c.dumps++ // each has what was executed since the one before
	dump, err := os.ReadFile(c.out() + "." + strconv.Itoa(c.dumps))
	if err != nil {
		return 0, err
	}
	_, total, _ := strings.Cut(string(dump), "\ntotals: ")
	total, _, _ = strings.Cut(total, "\n")
	n, err := strconv.ParseFloat(total, 64)
	c.sum += n
	return c.sum, err
}

// scripts are all that it has run.
func (c *callgrind) scripts() (int, error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{c.addr}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	info := client.B().Info().Section("commandstats").Build()
	stats, err := client.Do(context.Background(), info).ToString()
	if err != nil {
		return 0, fmt.Errorf("INFO commandstats: %w", err)
	}
	return scriptsIn(stats)
}

func (c *callgrind) close() {
	if c.proc != nil {
		c.proc.Kill()
	}
	_ = os.RemoveAll(c.dir)
}
