package asynqmw_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	asynqmw "github.com/lockbeat/lockbeat/lockmw/asynq"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// processEnv is set in a process that is one server of a fleet, to its [process] as JSON.
const processEnv = "LOCKBEAT_ASYNQ_PROCESS"

// process is a server of asynq's in a process of its own, which can be killed.
type process struct {
	Queues, Locks string // the addresses of two Redis servers, or of one
	Workers       int
	Takes         time.Duration // each task
	TTL           time.Duration
	InLine        bool

	cmd    *exec.Cmd
	stdin  io.Closer
	events chan event // closed when the process has ended
}

// event is what a process says of a task.
type event struct{ What, ID string }

// What an event can be.
const (
	began   = "began"
	ended   = "ended"
	refused = "refused"
)

// start starts the process, and kills it with the test. Its server has begun when start returns.
func (p process) start(t *testing.T) *process {
	t.Helper()
	text, err := json.Marshal(p)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	p.cmd, p.events = exec.Command(self), make(chan event, 10_000)
	p.cmd.Env = append(os.Environ(), processEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.stdin, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	lines := bufio.NewScanner(out)
	require.True(t, lines.Scan(), "the process has ended")
	go func() {
		defer close(p.events)
		for lines.Scan() {
			what, id, _ := strings.Cut(lines.Text(), " ")
			p.events <- event{what, id}
		}
	}()
	t.Cleanup(p.kill)
	return &p
}

// kill ends the process by SIGKILL.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	for range p.events { // until the pipe has closed
	}
}

// stop ends the process in good order.
func (p *process) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, p.stdin.Close())
	for range p.events {
	}
	require.NoError(t, p.cmd.Wait())
}

// await waits until the process says so of any task.
func (p *process) await(t *testing.T, what string, within time.Duration) (id string) {
	t.Helper()
	timeout := time.After(within)
	for {
		select {
		case e, open := <-p.events:
			require.True(t, open, "the process has ended")
			if e.What == what {
				return e.ID
			}
		case <-timeout:
			require.Fail(t, "no task "+what)
		}
	}
}

// beProcess is the other end. It returns the exit status.
func beProcess(text string) int {
	var p process
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fail(err)
	}
	if err := p.run(); err != nil {
		return fail(err)
	}
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, "process:", err)
	return 1
}

// run serves until standard input is closed.
func (p *process) run() error {
	option, err := redisstore.ClientOption(
		rueidis.ClientOption{InitAddress: []string{p.Locks}, DisableCache: true}, p.TTL)
	if err != nil {
		return err
	}
	client, err := connect(option)
	if err != nil {
		return err
	}
	defer client.Close()
	store, err := redisstore.New(client)
	if err != nil {
		return err
	}
	defer store.Close()
	keeper, err := renewer.New(store, renewer.Config{TTL: p.TTL})
	if err != nil {
		return err
	}
	defer func() { _ = keeper.Shutdown(context.Background()) }()

	var cfg asynq.Config
	asUsers(p.Workers)(&cfg)
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: p.Queues}, asynqmw.Configure(cfg))
	if err := server.Start(p.handler(keeper)); err != nil {
		return err
	}
	defer server.Shutdown()
	fmt.Println("ready")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

func (p *process) handler(k *renewer.Keeper) asynq.Handler {
	var opts []asynqmw.HandleOption
	if p.InLine {
		opts = append(opts, asynqmw.InLine(asynq.RedisClientOpt{Addr: p.Queues}))
	}
	h := asynqmw.Handle(k, byUser, func(ctx context.Context, _ order) error {
		say(ctx, began)
		work(ctx, p.Takes)
		say(ctx, ended)
		return nil
	}, opts...)
	return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := h.ProcessTask(ctx, task)
		if err != nil {
			say(ctx, refused)
		}
		return err
	})
}

// say prints a line, in one write.
func say(ctx context.Context, what string) {
	id, _ := asynq.GetTaskID(ctx)
	fmt.Println(what, id)
}
