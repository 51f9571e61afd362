package cronmw_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// nodeEnv makes the test binary a node: it has a role, as JSON.
const nodeEnv = "LOCKBEAT_CRON_NODE"

// role is what a node process is to do.
type role struct {
	Node  string
	Redis string
	Every time.Duration
	Ahead time.Duration // of its clock, by which its scheduler goes
	TTL   time.Duration
	Hangs bool   // the run that finds the key "hang" takes it, and does what it has: hang, or panic
	Log   string // a file for a line of each run: the tick, and how many were missed before it

	TakeOver int
}

// report is what it tells, a line each.
type report struct {
	What    string // "ready", "hangs", or an outcome
	Tick    int64  // in Unix milliseconds
	Missed  int
	Attempt int
	Err     string
}

const (
	ready = "ready"
	hangs = "hangs"
)

// beNode is the main function of a node process. It ends when its stdin does. SIGTERM cuts its runs,
// and ends it.
func beNode(text string) int {
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if err := r.run(json.NewEncoder(os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, r.Node, err)
		return 1
	}
	return 0
}

func (r role) run(out *json.Encoder) error {
	option, err := redisstore.ClientOption(rueidis.ClientOption{
		InitAddress:       []string{r.Redis},
		ForceSingleClient: true,
	}, r.TTL)
	if err != nil {
		return err
	}
	client, err := rueidis.NewClient(option)
	for range 20 { // a busy machine, and a write timeout for locks of a second
		if err == nil {
			break
		}
		<-time.After(100 * time.Millisecond)
		client, err = rueidis.NewClient(option)
	}
	if err != nil {
		return err
	}
	defer client.Close()
	patient, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: option.InitAddress, ForceSingleClient: true,
	})
	if err != nil {
		return err
	}
	defer patient.Close()
	store, err := redisstore.New(client, redisstore.WriteTimeout(option.ConnWriteTimeout))
	if err != nil {
		return err
	}
	defer store.Close()
	keeper, err := renewer.New(store, renewer.Config{TTL: r.TTL, Node: r.Node})
	if err != nil {
		return err
	}
	reports := make(chan report, 100)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	node, err := cronmw.New(ctx, keeper,
		cronmw.Config{OnTick: func(_ context.Context, t cronmw.Tick) {
			tell := report{
				What: string(t.Outcome), Tick: t.Due.UnixMilli(), Missed: t.Missed,
				Attempt: t.Attempt,
			}
			if t.Err != nil {
				tell.Err = t.Err.Error()
			}
			reports <- tell
		}})
	if err != nil {
		return err
	}
	node.SetClock(func() time.Time { return time.Now().Add(r.Ahead) })
	c, schedule := cron.New(), cronmw.Every(r.Every)
	job, err := node.Job("job", schedule, func(ctx context.Context) error {
		return r.work(ctx, patient, reports)
	}, cronmw.TakeOver(r.TakeOver))
	if err != nil {
		return err
	}
	c.Schedule(skewed{schedule, r.Ahead}, job)
	c.Start()
	reports <- report{What: ready}
	asked, over := make(chan struct{}), make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(asked)
	}()
	go func() {
		select {
		case <-asked:
		case <-ctx.Done():
		}
		<-c.Stop().Done()
		close(over)
	}()
	for {
		select {
		case tell := <-reports:
			if err := out.Encode(tell); err != nil {
				return err
			}
		case <-over:
			return keeper.Shutdown(context.Background())
		}
	}
}

// work is the job. It takes about a millisecond, and is on record in a file before it does
// anything.
func (r role) work(ctx context.Context, client rueidis.Client, reports chan<- report) error {
	run := cronmw.Current(ctx)
	tick := run.Due.UnixMilli()
	log, err := os.OpenFile(r.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(log, tick, run.Missed)
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	if r.Hangs {
		take := client.B().Getdel().Key("hang").Build()
		what, err := client.Do(context.WithoutCancel(ctx), take).ToString()
		switch {
		case rueidis.IsRedisNil(err):
		case err != nil:
			return err
		case what == "panic":
			debug.SetTraceback("none")
			panic("as the test wants it")
		default:
			reports <- report{What: hangs, Tick: tick}
			return untilCut(ctx)
		}
	}
	<-time.After(time.Millisecond)
	return nil
}

// child is a node process.
type child struct {
	role

	cmd     *exec.Cmd
	stdin   io.Closer
	reports chan report // closed when it has ended
	ended   chan error
}

// start starts it, and ends it with the test. It has told that it is ready.
func (r role) start(t *testing.T) *child {
	t.Helper()
	text, err := json.Marshal(r)
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	c := &child{
		role: r, cmd: exec.Command(self), reports: make(chan report, 1000),
		ended: make(chan error, 1),
	}
	c.cmd.Env = append(os.Environ(), nodeEnv+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.stdin, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.reports)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var tell report
			if json.Unmarshal(lines.Bytes(), &tell) == nil {
				c.reports <- tell
			}
		}
		c.ended <- c.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		for range c.reports {
		}
	})
	select {
	case first, ok := <-c.reports:
		require.True(t, ok, "%s has ended", r.Node)
		require.Equal(t, ready, first.What)
	case <-time.After(30 * time.Second):
		require.Fail(t, "not ready", r.Node)
	}
	return c
}

// stop ends it in good order, and returns what it has told since.
func (c *child) stop(t *testing.T) (told []report) {
	t.Helper()
	require.NoError(t, c.stdin.Close())
	for tell := range c.reports {
		told = append(told, tell)
	}
	require.NoError(t, <-c.ended)
	return told
}
