package grpcmw_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestWhatCannotBeMeantIsToldWhenTheProgramStarts(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	key := func(*pb.SimpleRequest) string { return "x" }
	config := func(edit func(*grpcmw.IdempotentConfig)) func() {
		c := grpcmw.IdempotentConfig{Caller: callerOf, Methods: []string{unary}}
		edit(&c)
		return func() { grpcmw.Idempotent(k, c) }
	}
	for want, construct := range map[string]func(){
		`ForMethod is given "grpc.testing.TestService/UnaryCall", and the program has no`: func() {
			grpcmw.ForMethod("grpc.testing.TestService/UnaryCall", key)
		},
		`ForMetadata is given "/grpc.testing.TestService", and service`: func() {
			grpcmw.ForMetadata("/grpc.testing.TestService", "a")
		},
		`ForWholeMethod is given "", and the program has no`: func() { grpcmw.ForWholeMethod("") },
		`service grpc.testing.TestService has no such method: see`: func() {
			grpcmw.ForMethod("/grpc.testing.TestService/Unary", key)
		},
		`is given "/grpc.testing.SimpleRequest/Get", and`: func() {
			grpcmw.ForWholeMethod("/grpc.testing.SimpleRequest/Get")
		},
		`no generated code of such a service`: func() { grpcmw.ForMethod("/bank.v1.Bank/Do", key) },
		"from *grpc_testing.SimpleRequest, but the method's request is *grpc_testing.Empty": func() {
			grpcmw.ForMethod(pb.TestService_EmptyCall_FullMethodName, key)
		},
		`from string, but the method's request is *grpc_testing.SimpleRequest`: func() {
			grpcmw.ForMethod(unary, func(s string) string { return s })
		},
		`ForMethod("` + unary + `") needs a function`: func() {
			grpcmw.ForMethod[*pb.SimpleRequest, string](unary, nil)
		},
		`UnaryServerInterceptor has two rules for ` + unary: func() {
			grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, key),
				grpcmw.ForWholeMethod(unary))
		},
		`UnaryServerInterceptor needs a keeper`:  func() { grpcmw.UnaryServerInterceptor(nil) },
		`StreamServerInterceptor needs a keeper`: func() { grpcmw.StreamServerInterceptor(nil) },
		`UnaryServerInterceptor has a rule for ` + duplex + `, whose calls never come here`: func() {
			grpcmw.UnaryServerInterceptor(k, grpcmw.ForWholeMethod(duplex))
		},
		`StreamServerInterceptor has a rule for ` + unary + `, whose calls never come here`: func() {
			grpcmw.StreamServerInterceptor(k, grpcmw.ForWholeMethod(unary))
		},
		`UnaryServerInterceptor has AcceptFence and StripFence: accept tokens behind`: func() {
			grpcmw.UnaryServerInterceptor(k, grpcmw.StripFence(), grpcmw.AcceptFence())
		},
		`MaxHold`: func() {
			grpcmw.StreamServerInterceptor(k, lockmw.MaxHold(time.Second))
		},
		`Wait(0s): give how long`: func() { grpcmw.UnaryServerInterceptor(k, lockmw.Wait(0)) },
		`MaxWaiters(0): give 1`:   func() { grpcmw.UnaryServerInterceptor(k, lockmw.MaxWaiters(0)) },
		`grpcmw.Silence(-1ns): give for how long`: func() {
			grpcmw.StreamServerInterceptor(k, grpcmw.Silence(-1))
		},
		`grpcmw.MaxWaitersPerCaller(0): give 1 or more`: func() {
			grpcmw.UnaryServerInterceptor(k, grpcmw.MaxWaitersPerCaller(0, callerOf))
		},
		`grpcmw.MaxWaitersPerCaller(2): give 1 or more, and a function`: func() {
			grpcmw.UnaryServerInterceptor(k, grpcmw.MaxWaitersPerCaller(2, nil))
		},
		`Idempotent needs a keeper`: func() {
			grpcmw.Idempotent(nil, grpcmw.IdempotentConfig{Caller: callerOf, Methods: []string{unary}})
		},
		"a Caller that says who calls": config(func(c *grpcmw.IdempotentConfig) { c.Caller = nil }),
		"and the Methods":              config(func(c *grpcmw.IdempotentConfig) { c.Methods = nil }),
		"no such method": config(func(c *grpcmw.IdempotentConfig) {
			c.Methods = []string{unary + "s"}
		}),
		"a streaming method": config(func(c *grpcmw.IdempotentConfig) {
			c.Methods = []string{duplex}
		}),
		"Keep(1s): it is less": config(func(c *grpcmw.IdempotentConfig) { c.KeepAnswer = time.Second }),
		"WaitForAnswer is -1,": config(func(c *grpcmw.IdempotentConfig) { c.WaitForAnswer = -1 }),
		"MaxStored is -2,":     config(func(c *grpcmw.IdempotentConfig) { c.MaxStored = -2 }),
		"MaxHold is 1s":        config(func(c *grpcmw.IdempotentConfig) { c.MaxHold = time.Second }),
		"SealKeys has 3 bytes": config(func(c *grpcmw.IdempotentConfig) {
			c.SealKeys = [][]byte{[]byte("abc")}
		}),
	} {
		func() {
			defer func() {
				got, _ := recover().(string)
				assert.Contains(t, got, want)
				assert.True(t, strings.HasPrefix(got, "lockbeat: "), got)
			}()
			construct()
			t.Errorf("no panic: %s", want)
		}()
	}
}

// An interceptor further out may have put another message in the place of the
// request.
func TestMessageOfAnotherTypeNeverPasses(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	in := grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, account))
	for _, req := range []any{&pb.Empty{}, "text", nil, struct{}{}} {
		_, err := in(t.Context(), req, &grpc.UnaryServerInfo{FullMethod: unary},
			func(context.Context, any) (any, error) {
				t.Error("it ran")
				return nil, nil
			})
		require.Equal(t, verdict{code: codes.Internal}, verdictOf(t, err))
		require.ErrorIs(t, err, renewer.ErrConfig)
	}
	require.Empty(t, store.Calls(script.Acquire))
}

// Nothing that a caller sends costs a question to the store unless it
// names a lock, and none of it comes back to it.
func TestBadInputAsksForNoLock(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client := unaryServer(t, k, &service{}, grpcmw.ForMethod(unary, account),
		grpcmw.ForMetadata(pb.TestService_EmptyCall_FullMethodName, "x-account"))
	long := strings.Repeat("s3cret", 1700)
	for _, key := range []string{"", long} {
		_, err := client.UnaryCall(within(t, soon), request(key))
		require.Equal(t, invalid, verdictOf(t, err))
		require.NotContains(t, err.Error(), "s3cret")
	}
	for _, pairs := range [][]string{
		{}, {"x-account", "s3cret", "x-account", "s3cret"}, {"x-account", ""}, {"x-account", long},
	} {
		_, err := client.EmptyCall(with(within(t, soon), pairs...), &pb.Empty{})
		require.Equal(t, invalid, verdictOf(t, err))
		require.NotContains(t, err.Error(), "s3cret")
	}
	require.Empty(t, store.Calls(script.Acquire))
	// A string field may hold anything. It is the lock's name as it is.
	for _, key := range []string{"a\x00b", "{a}:fence", "\xff", "a:b%"} {
		_, err := client.UnaryCall(within(t, soon), request(key))
		require.NoError(t, err)
		calls := store.Calls(script.Acquire)
		require.Equal(t, key, calls[len(calls)-1].Claims[0].Name)
	}
}

// A key function that fails says so by its name. What the client hears of it is
// the function's to say: by a status, or nothing.
func TestAKeyFunctionThatFails(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	closed := status.Error(codes.FailedPrecondition, "the account is closed")
	for name, c := range map[string]struct {
		err  error
		code codes.Code
		text string
	}{
		"an error":  {errors.New("s3cret"), codes.InvalidArgument, "not in a usable form"},
		"no reason": {nil, codes.InvalidArgument, "not in a usable form"},
		"a status":  {closed, codes.FailedPrecondition, "the account is closed"},
		"a status further in": {
			fmt.Errorf("s3cret: %w", closed), codes.FailedPrecondition, "the account is closed",
		},
	} {
		rule := grpcmw.ForMethod(unary, func(*pb.SimpleRequest) lockmw.Set {
			return lockmw.Invalid(c.err)
		})
		for _, in := range []grpc.UnaryServerInterceptor{
			grpcmw.UnaryServerInterceptor(k, rule),
			grpcmw.Idempotent(k, grpcmw.IdempotentConfig{
				Caller: ann, Methods: []string{unary}, Locks: []grpcmw.Option{rule},
			}),
		} {
			_, err := in(incoming(t.Context(), "idempotency-key", "k"), request("pen"),
				&grpc.UnaryServerInfo{FullMethod: unary},
				func(context.Context, any) (any, error) {
					t.Error("it ran")
					return nil, nil
				})
			require.Equal(t, c.code, status.Code(err), name)
			require.Contains(t, status.Convert(err).Message(), c.text, name)
			require.NotContains(t, err.Error(), "s3cret", name)
			require.ErrorIs(t, err, renewer.ErrName, name)
			if c.err != nil {
				require.ErrorIs(t, err, c.err, name)
			}
		}
	}
	require.Empty(t, store.Calls(script.Acquire))
}

// A rule that names no lock, or that can't be asked for, is reported, and not
// at every call. A call that the program refuses by a status of its own is not.
func TestARuleThatNamesNoLockIsReported(t *testing.T) {
	t.Parallel()
	closed := status.Error(codes.FailedPrecondition, "the account is closed")
	for name, c := range map[string]struct {
		key   lockmw.Set
		fault error
		says  string
	}{
		"empty":    {lockmw.All(""), renewer.ErrName, "InvalidArgument"},
		"negative": {lockmw.Limit("a", -1), renewer.ErrConfig, "fail"},
		"a status": {lockmw.Invalid(closed), nil, ""},
	} {
		o := new(faultLog)
		k, err := renewer.New(memory.New(), renewer.Config{Observer: o, Log: renewer.Silent})
		require.NoError(t, err)
		defer func() { require.NoError(t, k.Shutdown(context.Background())) }()
		rule := grpcmw.ForMethod(unary, func(*pb.SimpleRequest) lockmw.Set { return c.key })
		ins := []grpc.UnaryServerInterceptor{
			grpcmw.UnaryServerInterceptor(k, rule),
			grpcmw.Idempotent(k, grpcmw.IdempotentConfig{
				Caller: ann, Methods: []string{unary}, Locks: []grpcmw.Option{rule},
			}),
		}
		for range 3 {
			for _, in := range ins {
				_, err := in(incoming(t.Context(), "idempotency-key", "k"), request("pen"),
					&grpc.UnaryServerInfo{FullMethod: unary}, nil)
				require.Error(t, err)
			}
		}
		if c.fault == nil {
			require.Empty(t, o.faults, name)
			continue
		}
		require.Len(t, o.faults, len(ins), name)
		for _, f := range o.faults {
			require.Equal(t, "serve gRPC", f.Doing)
			require.ErrorIs(t, f.Err, c.fault)
			require.ErrorContains(t, f.Err, c.says)
			require.ErrorContains(t, f.Err, unary)
		}
	}
}

type callerKey struct{}

func by(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

func callerOf(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}
