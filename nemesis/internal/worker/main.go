package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/nemesis/internal/deploy"
	"github.com/lockbeat/lockbeat/renewer"
)

// startTime is how long a worker that is started in the middle of a fault tries to connect.
const startTime = 30 * time.Second

// Main is a worker's life: until stdin ends. It returns the exit status.
func Main(text string, stdin io.Reader, stdout, stderr io.Writer) int {
	before := runtime.NumGoroutine()
	err := run(text, stdin, &teller{out: stdout})
	if err == nil {
		err = awaitGone(before + 1) // that which reads stdin
	}
	if err != nil {
		_, _ = fmt.Fprintln(stderr, "nemesis worker:", err)
		return 1
	}
	return 0
}

// Goroutines of a cluster's client end up to 5 s after its Close.
const lingerTime = 8 * time.Second

// awaitGone returns nil once no more goroutines are left than so many, but for those of connections
// that rueidis has started by itself.
func awaitGone(most int) error {
	for begun := time.Now(); ; <-time.After(10 * time.Millisecond) {
		if runtime.NumGoroutine() <= most {
			return nil
		}
		if time.Since(begun) > lingerTime {
			text := make([]byte, 4<<20) // all of them: what is cut off would not be counted
			stacks := string(text[:runtime.Stack(text, true)])
			left := started(stacks)
			if left <= most {
				return nil
			}
			return fmt.Errorf("%d goroutines are left, of %d at the beginning: %s", left, most-1,
				stacks)
		}
	}
}

// started counts the goroutines of a stack trace, but for those that rueidis has started: its
// cluster client never closes a connection that it is making while it is closed.
func started(stacks string) int {
	return strings.Count("\n\n"+stacks, "\n\ngoroutine ") -
		strings.Count(stacks, "\ncreated by github.com/redis/rueidis.")
}

func run(text string, stdin io.Reader, t *teller) error {
	var spec Spec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		return fmt.Errorf("%s: %w", Env, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var aside sync.WaitGroup
	go func() { // a read of stdin can't be ended from here: it ends with the parent, or the process
		_, _ = io.Copy(io.Discard, stdin)
		cancel()
	}()
	aside.Go(func() { watchPauses(ctx, t) })
	defer aside.Wait()
	defer cancel()

	conn, err := connect(ctx, spec)
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to end before there was a server
		}
		return err
	}
	defer conn.Close()
	cfg := Config(spec.TTL)
	cfg.Node = spec.Name
	locks := breakStore(conn.Store.Engine(), spec.Flaw)
	keeper, err := renewer.New(engine.Of(tellOf(locks, t, cfg)), cfg)
	if err != nil {
		return err
	}
	if b, ok := locks.(breakable); !ok {
		spec.Broken = nil
	} else if spec.Broken != nil {
		s := &saboteur{spec: spec, store: b, t: t, dice: dice(spec, saboteurSeed)}
		aside.Go(func() { s.run(ctx) })
	}
	work(ctx, spec, keeper, t)
	over, stop := context.WithTimeout(context.Background(), 4*spec.TTL)
	defer stop()
	return keeper.Shutdown(over)
}

// connect goes on trying, as a program does under a supervisor.
func connect(ctx context.Context, spec Spec) (*deploy.Connection, error) {
	for begun := time.Now(); ; {
		conn, err := spec.Deploy.Connect(spec.TTL)
		if err == nil {
			return conn, nil
		}
		if time.Since(begun) > startTime {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		case <-time.After(spec.TTL / 20):
		}
	}
}

// work runs the callers until ctx ends.
func work(ctx context.Context, spec Spec, keeper *renewer.Keeper, t *teller) {
	var ops atomic.Int64
	var callers sync.WaitGroup
	for i := range spec.Callers {
		c := &caller{spec: spec, keeper: keeper, t: t, ops: &ops, dice: dice(spec, i)}
		callers.Go(func() { c.run(ctx) })
	}
	callers.Wait()
}
