package grpcmw_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/grpcmw"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Whatever metadata a call carries, it runs under the lock that is named by its
// one value, or it does not run and no lock is asked for.
func FuzzMetadataKey(f *testing.F) {
	for _, name := range []string{
		"x-account", "X-Account", "x-account-bin", "grpc-timeout",
		":authority", "", "a b", "ä", "x_1.y",
	} {
		for _, value := range []string{
			"a1", "", "a:1", "a%3A1", "a\x00", "a\nb", "\x7f", "\xff", "ä", "\u0000lockbeat quorum",
			strings.Repeat("x", 600), strings.Repeat(":", 400),
		} {
			f.Add(name, value, uint8(1))
		}
		f.Add(name, "a1", uint8(0))
		f.Add(name, "a1", uint8(2))
	}
	f.Fuzz(func(t *testing.T, name, value string, times uint8) {
		rule := func() (rule grpcmw.Option) {
			defer func() {
				if fault := recover(); fault != nil {
					require.Contains(t, fault, "lockbeat: grpcmw.ForMetadata(")
				}
			}()
			return grpcmw.ForMetadata(unary, name)
		}()
		if rule == nil {
			return
		}
		name = strings.ToLower(name)
		require.False(t, strings.HasSuffix(name, "-bin") || strings.HasPrefix(name, "grpc-"))
		store := script.New()
		k := newKeeper(t, store)
		in := grpcmw.UnaryServerInterceptor(k, rule)
		ctx := metadata.NewIncomingContext(t.Context(),
			metadata.MD{name: slices.Repeat([]string{value}, int(times))})
		ran := false
		_, err := in(ctx, nil, &grpc.UnaryServerInfo{FullMethod: unary},
			func(ctx context.Context, _ any) (any, error) {
				ran = true
				require.True(t, lockmw.Held(ctx, lockmw.Key(name, value)))
				return nil, nil
			})
		control := strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f })
		usable := times == 1 && value != "" && !control &&
			len(lockmw.Key(name, value)) <= contract.MaxName
		require.Equal(t, usable, ran)
		if ran {
			require.NoError(t, err)
			return
		}
		require.Equal(t, invalid, verdictOf(t, err))
		require.Less(t, len(err.Error()), 300+len(name), "an outsider's words stay out of logs")
		require.Empty(t, store.Calls(script.Acquire))
	})
}
