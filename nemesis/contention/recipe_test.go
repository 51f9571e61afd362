package contention_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	bankpb "github.com/lockbeat/lockbeat/examples/grpcserver/bank"
	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/memory"
)

// A handler and a method that name the same account exclude each other.
func TestHTTPAndGRPCExcludeEachOther(t *testing.T) {
	t.Parallel()
	store := memory.New()
	newKeeper := func() *renewer.Keeper {
		k, err := renewer.New(store, renewer.Config{TTL: ttl})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, k.Shutdown(context.WithoutCancel(t.Context()))) })
		return k
	}
	var inside func() // what happens during an operation
	mux := http.NewServeMux()
	mux.Handle("POST /accounts/{id}/transfer",
		httpmw.Exclusive(newKeeper(), func(r *http.Request) (string, error) {
			return lockmw.Key("account", r.PathValue("id")), nil
		}, httpmw.Refuse(http.StatusConflict))(http.HandlerFunc(func(http.ResponseWriter,
			*http.Request,
		) {
			inside()
		})))
	byHTTP := func(id string) int {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost,
			"/accounts/"+id+"/transfer", http.NoBody))
		return w.Code
	}
	interceptor := grpcmw.UnaryServerInterceptor(newKeeper(), grpcmw.Refuse(),
		grpcmw.ForMethod(bankpb.Bank_Transfer_FullMethodName,
			func(r *bankpb.TransferRequest) string {
				return lockmw.Key("account", r.GetFrom())
			}))
	byGRPC := func(id string) codes.Code {
		_, err := interceptor(t.Context(), &bankpb.TransferRequest{From: id},
			&grpc.UnaryServerInfo{FullMethod: bankpb.Bank_Transfer_FullMethodName},
			func(context.Context, any) (any, error) {
				inside()
				return &bankpb.TransferRequest{}, nil
			})
		return status.Code(err)
	}

	nothing := func() {}
	inside = func() {
		inside = nothing
		require.Equal(t, codes.Aborted, byGRPC("7"), "the account is in use by HTTP")
		require.Equal(t, codes.OK, byGRPC("8"), "another account")
	}
	require.Equal(t, http.StatusOK, byHTTP("7"))
	inside = func() {
		inside = nothing
		require.Equal(t, http.StatusConflict, byHTTP("7"), "the account is in use by gRPC")
		require.Equal(t, http.StatusOK, byHTTP("8"), "another account")
	}
	require.Equal(t, codes.OK, byGRPC("7"))
}
