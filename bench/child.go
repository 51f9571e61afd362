package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// childEnv is set for a child: this program once more, as a process of its own.
// It reads JSON, a setup first and then one request after the other, and
// answers each of them.
const childEnv = "BENCH_CHILD"

// The roles of a child.
const (
	takingTurns  = "turns" // takes and frees locks
	holding      = "hold"  // holds very many
	servingTasks = "tasks" // runs asynq's tasks
	unlocked     = "free tasks"
	spinning     = "spin" // keeps cores awake
)

// setup says what a child is to be.
type setup struct {
	Role  string
	Who   string
	Addr  string // of the locks' server
	Queue string // of asynq's server
}

// reply is what a child answers: an error, or what its parent wants to know.
type reply struct {
	Err    string `json:",omitempty"`
	Answer any
}

// handle answers one request.
type handle func(ctx context.Context, request json.RawMessage) (answer any, err error)

func childMain(stdin io.Reader, stdout, stderr io.Writer) int {
	err := serve(context.Background(), json.NewDecoder(bufio.NewReader(stdin)),
		json.NewEncoder(stdout))
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "bench child:", err)
		return 1
	}
	return 0
}

// serve ends when its input does. What the child has open ends with its
// process.
func serve(ctx context.Context, in *json.Decoder, out *json.Encoder) error {
	var s setup
	if err := in.Decode(&s); err != nil {
		return err
	}
	roles := map[string]func(setup) (handle, error){
		takingTurns: newTurns, holding: newHolder,
		servingTasks: newTaskServer, unlocked: newTaskServer, spinning: newSpinner,
	}
	handler, err := roles[s.Role](s)
	if err := out.Encode(reply{Err: text(err)}); err != nil {
		return err
	}
	for err == nil {
		var request json.RawMessage
		if err = in.Decode(&request); err != nil {
			break
		}
		answer, failure := handler(ctx, request)
		err = out.Encode(reply{text(failure), answer})
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// child is what its parent has of it.
type child struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  *json.Decoder
}

// startChild returns when the child is ready. The end of ctx kills it.
func startChild(ctx context.Context, s setup) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.CommandContext(ctx, program)}
	c.cmd.Env = append(os.Environ(), childEnv+"=1")
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
	if err := c.ask(s, nil); err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

// ask sends a request, and reads the answer into a pointer.
func (c *child) ask(request, answer any) error {
	if err := json.NewEncoder(c.stdin).Encode(request); err != nil {
		return fmt.Errorf("the child is gone: %w", err)
	}
	r := reply{Answer: answer}
	if err := c.said.Decode(&r); err != nil {
		return fmt.Errorf("the child said nothing: %w", err)
	}
	if r.Err != "" {
		return errors.New(r.Err)
	}
	return nil
}

// end kills the child: all that it measured is known, and a library may hang at
// its end.
func (c *child) end() {
	_ = c.cmd.Process.Kill() // fails only if it has ended already
	_ = c.stdin.Close()
	_ = c.cmd.Wait() // says that it was killed
}

// crew are children of the same kind.
type crew []*child

func startCrew(ctx context.Context, n int, s setup) (crew, error) {
	c := make(crew, n)
	err := together(n, func(i int) (err error) {
		c[i], err = startChild(ctx, s)
		return err
	})
	if err != nil {
		c.end()
		return nil, err
	}
	return c, nil
}

func (c crew) end() {
	_ = together(len(c), func(i int) error {
		if c[i] != nil {
			c[i].end()
		}
		return nil
	})
}

// askAll asks all children the same at once.
func askAll[T any](c crew, request any) ([]T, error) {
	answers := make([]T, len(c))
	return answers, together(len(c), func(i int) error { return c[i].ask(request, &answers[i]) })
}

// together does what blocks n times at once, and returns the first error.
func together(n int, do func(i int) error) error {
	errs := make(chan error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if err := do(i); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

// bound is what a contestant may take for one case. What hangs is killed then.
func (o options) bound() time.Duration {
	if o.short {
		return 10 * time.Second
	}
	return 90 * time.Second
}

// inTime gives a contestant's round its bound. If it fails, the figures have a
// note of it, unless it is Lockbeat, whose failure ends the program.
func (f *figures) inTime(
	ctx context.Context, o options, table, who string, round func(context.Context) error,
) error {
	bounded, cancel := context.WithTimeout(ctx, o.bound())
	defer cancel()
	err := round(bounded)
	if err != nil && who != lockbeat && ctx.Err() == nil {
		f.failed(table, who, err)
		return nil
	}
	return err
}
