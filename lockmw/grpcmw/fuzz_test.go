package grpcmw_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
)

// Whatever is given for a method, it is either one that can be called
// or a panic that says what to write instead.
func FuzzMethodName(f *testing.F) {
	for _, seed := range []string{
		unary, duplex, foreign, "/Service/Method", "", "/", "//", "/a/", "//b", "/a/b/c", "a/b",
		"/a b/c", "/a./b", "/.a/b", "/a/b.c", "/1/2",
		"/grpc.testing.TestService/None", "/grpc.testing/UnaryCall", "/grpc.testing.Payload/body",
		"/a\x00/b", "/ä/b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, full string) {
		usable := func() (ok bool) {
			defer func() {
				if fault := recover(); fault != nil {
					text, _ := fault.(string)
					require.True(t, strings.HasPrefix(text, "lockbeat: grpcmw.ForWholeMethod: "),
						"%v", fault)
				}
			}()
			grpcmw.ForWholeMethod(full)
			return true
		}()
		if usable {
			parts := strings.Split(full, "/")
			require.Len(t, parts, 3)
			require.Empty(t, parts[0])
			require.NotEmpty(t, parts[1])
			require.NotEmpty(t, parts[2])
			require.NotContains(t, parts[2], ".")
		}
	})
}
