package grpcmw_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

// Whatever is stored, what a call returns is one of the two: a message of its type, or an error
// that gRPC can send.
func FuzzStoredReply(f *testing.F) {
	for _, s := range []string{
		``, `{}`, `[]`, `{"message":"EgNwZW4="}`, `{"message":"EgNwZW4=","status":"CAk="}`,
		`{"status":"CAkSCGRlY2xpbmVk"}`, `{"status":"CAA="}`, `{"status":"CP///////////wE="}`,
		`{"message":"/w=="}`, `{"status":"/w=="}`, `{"status":201,"body":"cGVu"}`, `{"message":"?"}`,
	} {
		f.Add([]byte(s))
	}
	kind := new(pb.SimpleResponse).ProtoReflect().Type()
	f.Fuzz(func(t *testing.T, text []byte) {
		message, failed, wrong := grpcmw.DecodeReply(text, kind)
		if wrong != nil {
			return
		}
		require.True(t, json.Valid(text))
		if failed != nil {
			require.Nil(t, message)
			require.NotEqual(t, codes.OK, status.Code(failed))
			return
		}
		require.IsType(t, &pb.SimpleResponse{}, message)
	})
}
