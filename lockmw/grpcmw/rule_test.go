package grpcmw_test

import (
	"context"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// foreign is a method of a service that no generated code describes.
const foreign = "/bank.v1.Bank/Transfer"

func TestRulesAreCheckedAtConstruction(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	key := func(*pb.SimpleRequest) string { return "x" }
	for want, construct := range map[string]func(){
		`grpcmw.ForMethod: "grpc.testing.TestService/UnaryCall" is no full method name`: func() {
			grpcmw.ForMethod("grpc.testing.TestService/UnaryCall", key)
		},
		`"/grpc.testing.TestService" is no full method name`: func() {
			grpcmw.ForMetadata("/grpc.testing.TestService", "a")
		},
		`"" is no full method name`: func() {
			grpcmw.ForWholeMethod("")
		},
		`service grpc.testing.TestService has no method Unary: see`: func() {
			grpcmw.ForMethod("/grpc.testing.TestService/Unary", key)
		},
		`grpc.testing.SimpleRequest is no service: see`: func() {
			grpcmw.ForWholeMethod("/grpc.testing.SimpleRequest/Get")
		},
		"from *grpc_testing.SimpleRequest, but the method's request is " +
			"*grpc_testing.Empty": func() {
			grpcmw.ForMethod(pb.TestService_EmptyCall_FullMethodName, key)
		},
		`from string, but the method's request is *grpc_testing.SimpleRequest`: func() {
			grpcmw.ForMethod(unary, func(s string) string { return s })
		},
		`ForMethod("` + unary + `") needs a function`: func() {
			grpcmw.ForMethod[*pb.SimpleRequest](unary, nil)
		},
		`("` + unary + `", "")`: func() { grpcmw.ForMetadata(unary, "") },
		`"tenant id"): metadata names are`: func() {
			grpcmw.ForMetadata(unary, "Tenant ID")
		},
		`"blob-bin"): metadata names are`: func() {
			grpcmw.ForMetadata(unary, "blob-bin")
		},
		`"grpc-timeout"): metadata names are`: func() {
			grpcmw.ForMetadata(unary, "grpc-timeout")
		},
		`":authority"): metadata names are`: func() {
			grpcmw.ForMetadata(unary, ":authority")
		},
		`UnaryServerInterceptor has two rules for ` + unary: func() {
			grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(unary, key),
				grpcmw.ForWholeMethod(unary))
		},
		`UnaryServerInterceptor has a rule for ` + foreign +
			`, and the program has no generated code of the service bank.v1.Bank`: func() {
			grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(foreign, key),
				grpcmw.Unlinked("bank.v1.Banks"))
		},
		`StreamServerInterceptor has a rule for ` + foreign +
			`, and the program has no`: func() {
			grpcmw.StreamServerInterceptor(k, grpcmw.ForMetadata(foreign, "a"))
		},
		`grpcmw.Unlinked needs`:                           func() { grpcmw.Unlinked() },
		`grpcmw.Unlinked("/bank.v1.Bank/Transfer") can't`: func() { grpcmw.Unlinked(foreign) },
		`UnaryServerInterceptor needs a keeper`:           func() { grpcmw.UnaryServerInterceptor(nil) },
		`StreamServerInterceptor needs a keeper`:          func() { grpcmw.StreamServerInterceptor(nil) },
		`UnaryServerInterceptor has a rule for ` + duplex +
			`, whose calls never come here: it is a streaming method`: func() {
			grpcmw.UnaryServerInterceptor(k, grpcmw.ForWholeMethod(duplex))
		},
		`StreamServerInterceptor has a rule for ` + unary +
			`, whose calls never come here: it is a unary method`: func() {
			grpcmw.StreamServerInterceptor(k, grpcmw.ForWholeMethod(unary))
		},
		`Wait(0s) can't be meant`:      func() { grpcmw.Wait(0) },
		`Wait(-1ns) can't be meant`:    func() { grpcmw.Wait(-1) },
		`RetryIn(0s) can't be meant`:   func() { grpcmw.RetryIn(0) },
		`MaxWaiters(0) can't be meant`: func() { grpcmw.MaxWaiters(0) },
	} {
		func() {
			defer func() {
				got, _ := recover().(string)
				assert.Contains(t, got, want)
				assert.True(t, strings.HasPrefix(got, "lockbeat: grpcmw."), got)
			}()
			construct()
			t.Errorf("no panic: %s", want)
		}()
	}
}

// An interface that the request has will do, so that one function serves several methods.
func TestKeyOfAnInterface(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	key := func(r interface{ GetPayload() *pb.Payload }) string {
		return lockmw.Key("acc", string(r.GetPayload().GetBody()))
	}
	client := unaryServer(t, k, &service{}, grpcmw.ForMethod(unary, key),
		grpcmw.ForMethod(pb.TestService_CacheableUnaryCall_FullMethodName,
			func(m proto.Message) string {
				return string(m.ProtoReflect().Descriptor().FullName())
			}))
	_, err := client.UnaryCall(within(t, soon), request("a:1"))
	require.NoError(t, err)
	_, err = client.CacheableUnaryCall(within(t, soon), request(""))
	require.Equal(t, codes.Unimplemented, verdictOf(t, err).code)
	calls := store.Calls(script.Acquire)
	require.Len(t, calls, 2)
	require.Equal(t, "acc:a%3A1", calls[0].Claims[0].Name)
	require.Equal(t, "grpc.testing.SimpleRequest", calls[1].Claims[0].Name)
}

// What can't be checked when the program starts fails when it runs, and never passes by the lock.
func TestMessageOfAnotherTypeNeverPasses(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	key := func(*pb.SimpleRequest) string { return "a1" }
	unaryIn := grpcmw.UnaryServerInterceptor(k, grpcmw.ForMethod(foreign, key),
		grpcmw.Unlinked("bank.v1.Bank"))
	streamIn := grpcmw.StreamServerInterceptor(k, grpcmw.Unlinked("bank.v1.Bank"),
		grpcmw.ForMethod(foreign, key))
	for _, req := range []any{&pb.Empty{}, "text", nil, struct{}{}} {
		_, err := unaryIn(t.Context(), req, &grpc.UnaryServerInfo{FullMethod: foreign},
			func(context.Context, any) (any, error) {
				t.Error("it ran")
				return nil, nil
			})
		require.Equal(t, verdict{code: codes.Internal}, verdictOf(t, err))
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err,
			"derived from *grpc_testing.SimpleRequest, but its request is")

		stream := &fakeServerStream{ctx: t.Context(), recv: func(any) error { return nil }}
		err = streamIn(nil, stream, &grpc.StreamServerInfo{FullMethod: foreign},
			func(_ any, s grpc.ServerStream) error {
				assert.Error(t, s.RecvMsg(req))
				return nil
			})
		require.Equal(t, verdict{code: codes.Internal}, verdictOf(t, err))
	}
	require.Empty(t, store.Calls(script.Acquire))
	reply, err := unaryIn(t.Context(), &pb.SimpleRequest{},
		&grpc.UnaryServerInfo{FullMethod: foreign},
		func(context.Context, any) (any, error) { return "fine", nil })
	require.NoError(t, err)
	require.Equal(t, "fine", reply)
}

func TestMetadataKey(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client := unaryServer(t, k, &service{}, grpcmw.ForMetadata(unary, "X-Account"))
	ctx := metadata.AppendToOutgoingContext(within(t, soon), "x-ACCOUNT", "a:1")
	_, err := client.UnaryCall(ctx, request(""))
	require.NoError(t, err)
	require.Equal(t, "x-account:a%3A1", store.Calls(script.Acquire)[0].Claims[0].Name)
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
		require.Equal(t, verdict{code: codes.InvalidArgument, reason: grpcmw.ReasonKey},
			verdictOf(t, err))
		require.NotContains(t, err.Error(), "s3cret")
	}
	for want, pairs := range map[string][]string{
		`metadata "x-account" is missing`:       {},
		`metadata "x-account" is given 2 times`: {"x-account", "s3cret", "x-account", "s3cret"},
		`metadata "x-account" is empty`:         {"x-account", ""},
		`is empty or too long`:                  {"x-account", long},
	} {
		_, err := client.EmptyCall(metadata.AppendToOutgoingContext(within(t, soon), pairs...),
			&pb.Empty{})
		require.Equal(t, verdict{code: codes.InvalidArgument, reason: grpcmw.ReasonKey},
			verdictOf(t, err))
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "s3cret")
	}
	require.Empty(t, store.Calls(script.Acquire))
	_, err := client.UnaryCall(within(t, soon), request("a1"))
	require.NoError(t, err, "nothing else is disturbed")
}

// A string field may hold anything. It is the lock's name as it is,
// and stores escape what their keys can't carry.
func TestAnyBytesOfAMessageMakeAKey(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client := unaryServer(t, k, &service{}, grpcmw.ForMethod(unary, account))
	for _, key := range []string{"a\x00b", "{a}:fence", "\xff", "a:b%"} {
		_, err := client.UnaryCall(within(t, soon), request(key))
		require.NoError(t, err)
		calls := store.Calls(script.Acquire)
		require.Equal(t, key, calls[len(calls)-1].Claims[0].Name)
	}
}

// A call may need several locks: all or none.
func TestCallUnderSeveralLocks(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	client := unaryServer(t, k,
		&service{unary: func(context.Context, *pb.SimpleRequest) (*pb.SimpleResponse, error) {
			assert.NotEmpty(t, store.Owner("from"))
			assert.NotEmpty(t, store.Owner("to"))
			return &pb.SimpleResponse{}, nil
		}}, grpcmw.ForMethod(unary, func(*pb.SimpleRequest) string {
			return lockmw.Keys("to", "from")
		}), grpcmw.Refuse())
	_, err := client.UnaryCall(within(t, soon), request(""))
	require.NoError(t, err)
	release := hold(t, k, "to")
	_, err = client.UnaryCall(within(t, soon), request(""))
	require.Equal(t, grpcmw.ReasonBusy, verdictOf(t, err).reason)
	release()
	free(t, store, "from")
	free(t, store, "to")
}

// gRPC's own client and server let no control byte through; others may.
func TestControlBytesInMetadata(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	in := grpcmw.UnaryServerInterceptor(k, grpcmw.ForMetadata(unary, "x-account"))
	for _, value := range []string{"a\x00", "a\nb", "\x7f", "\x1f"} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("x-account", value))
		_, err := in(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unary},
			func(context.Context, any) (any, error) {
				return nil, nil
			})
		require.Equal(t, verdict{code: codes.InvalidArgument, reason: grpcmw.ReasonKey},
			verdictOf(t, err))
		require.ErrorIs(t, err, renewer.ErrName)
	}
	require.Empty(t, store.Calls(script.Acquire))
}

func TestNamesOfMetadata(t *testing.T) {
	t.Parallel()
	for c := range rune(128) {
		odd := !strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789-_.", unicode.ToLower(c))
		use := func() { grpcmw.ForMetadata(unary, string(c)) }
		if odd {
			require.Panics(t, use, "%q", c)
		} else {
			require.NotPanics(t, use, "%q", c)
		}
	}
}
