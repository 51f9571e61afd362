//go:build unix

package tracing_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
	"github.com/lockbeat/lockbeat/testutil/redistest"
	"github.com/lockbeat/lockbeat/tracing"
)

// holderEnv is the address of the server on which the test binary, run once more, holds a lock.
const holderEnv = "LOCKBEAT_TRACING_HOLDER_OF"

func TestMain(m *testing.M) {
	if addr := os.Getenv(holderEnv); addr != "" {
		if err := holdElsewhere(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// overThere is a span as another process describes it.
type overThere struct{ Name, Traceparent, ParentID, SpanID string }

// holdElsewhere is what the other process does: it serves a request
// under a lock until its standard input ends, and then prints its spans.
func holdElsewhere(addr string) error {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	k, shutdown, err := redisKeeper(addr, "elsewhere",
		tracing.New(tracing.WithTracerProvider(provider)))
	if err != nil {
		return err
	}
	defer shutdown()
	ctx, request := provider.Tracer("program").Start(context.Background(), "POST /transfer")
	_, err = lockmw.Do(ctx, k, "account:42", func(context.Context) (int, error) {
		fmt.Println("held")
		_, err := io.Copy(io.Discard, os.Stdin)
		return 0, err
	}, lockmw.Operation("transfer"))
	request.End()
	told := make([]overThere, 0, 3)
	for _, s := range spans.GetSpans() {
		told = append(told, overThere{
			s.Name, traceparent(s.SpanContext), s.Parent.SpanID().String(),
			s.SpanContext.SpanID().String(),
		})
	}
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(told))
}

// redisKeeper is a keeper on the server at addr.
func redisKeeper(
	addr, node string, o *tracing.Observer,
) (k *renewer.Keeper, shutdown func(), err error) {
	option, err := redisstore.ClientOption(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true,
	}, renewer.DefaultTTL)
	if err != nil {
		return nil, nil, err
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, nil, err
	}
	store, err := redisstore.New(client)
	if err == nil {
		k, err = renewer.New(store,
			renewer.Config{TTL: renewer.DefaultTTL, Node: node, Observer: o})
	}
	if err != nil {
		client.Close()
		return nil, nil, err
	}
	return k, func() {
		_ = k.Shutdown(context.Background())
		store.Close()
		client.Close()
	}, nil
}

// From a request that was refused, or that waited, one link leads to
// the request that had the lock, in another process.
func TestTheLinkAcrossTwoProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	elsewhere, letGo, finish := startElsewhere(t, server.Addr())

	s := newSeen()
	k, shutdown, err := redisKeeper(server.Addr(), "here", tracing.New(s.to...))
	require.NoError(t, err)
	defer shutdown()
	ctx, request := s.request(t)
	_, err = lockmw.Do(ctx, k, "account:42", func(context.Context) (int, error) {
		return 0, nil
	}, lockmw.Refuse())
	require.ErrorIs(t, err, renewer.ErrHeld)
	waited := make(chan error, 1)
	go func() {
		_, err := lockmw.Do(ctx, k, "account:42", func(context.Context) (int, error) {
			return 0, nil
		}, lockmw.Wait(time.Minute))
		waited <- err
	}()
	require.Eventually(t, func() bool {
		return len(s.named("lockbeat.attempt")) > 1
	}, 30*time.Second, time.Millisecond, "it waits")
	letGo()
	require.NoError(t, <-waited)
	request.End()

	spans := finish()
	require.Len(t, spans, 3)
	hold, serving := spans["lockbeat.hold"], spans["POST /transfer"]
	require.Equal(t, serving.SpanID, hold.ParentID)
	acquires := s.named("lockbeat.acquire")
	require.Len(t, acquires, 2)
	for i, outcome := range []string{"held", "granted"} {
		require.Len(t, acquires[i].Links(), 1)
		require.Equal(t, hold.Traceparent, traceparent(acquires[i].Links()[0].SpanContext))
		require.True(t, acquires[i].Links()[0].SpanContext.IsRemote())
		require.NotEqual(t, acquires[i].SpanContext().TraceID(),
			acquires[i].Links()[0].SpanContext.TraceID())
		require.Equal(t, codes.Unset, acquires[i].Status().Code)
		got := attrs(acquires[i].Attributes())
		require.Equal(t, outcome, got["lockbeat.outcome"])
		require.Equal(t, "elsewhere", got["lockbeat.holder.host"])
		require.Equal(t, int64(elsewhere), got["lockbeat.holder.pid"])
		require.Equal(t, "transfer", got["lockbeat.holder.operation"])
		require.Positive(t, got["lockbeat.holder.held_for"])
	}
}

// startElsewhere runs the other process until letGo is called; finish gives its spans by name.
func startElsewhere(
	t *testing.T, addr string,
) (pid int, letGo func(), finish func() map[string]overThere) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), holderEnv+"="+addr)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cancel() // kills it, if it runs still
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "held\n", line)
	return cmd.Process.Pid, func() { require.NoError(t, in.Close()) }, func() map[string]overThere {
		var spans []overThere
		require.NoError(t, json.NewDecoder(lines).Decode(&spans))
		require.NoError(t, cmd.Wait())
		byName := make(map[string]overThere)
		for _, s := range spans {
			byName[s.Name] = s
		}
		return byName
	}
}
