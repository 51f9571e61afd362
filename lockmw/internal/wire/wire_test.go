package wire_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
)

func TestFence(t *testing.T) {
	t.Parallel()
	for _, fence := range []int64{1, 42, math.MaxInt64} {
		got, ok := wire.ParseFence(wire.FormatFence(fence))
		require.True(t, ok)
		require.Equal(t, fence, got)
	}
	for _, s := range []string{"", "0", "-1", "+1", "01", " 1", "1 ", "1.0", "0x1", "1e3", "9223372036854775808", "١"} {
		_, ok := wire.ParseFence(s)
		require.False(t, ok, "%q", s)
	}
}

func FuzzParseFence(f *testing.F) {
	f.Add("42")
	f.Add("-0")
	f.Fuzz(func(t *testing.T, s string) {
		if fence, ok := wire.ParseFence(s); ok {
			require.Positive(t, fence)
			require.Equal(t, s, wire.FormatFence(fence))
		}
	})
}

func TestInto(t *testing.T) {
	t.Parallel()
	type order struct{ ID int }
	var value order
	require.NoError(t, json.Unmarshal([]byte(`{"ID":7}`), wire.Into(&value)))
	require.Equal(t, order{7}, value)
	var pointer *order
	require.NoError(t, json.Unmarshal([]byte(`{"ID":7}`), wire.Into(&pointer)))
	require.Equal(t, &order{7}, pointer)
	require.NoError(t, json.Unmarshal([]byte(`null`), wire.Into(&pointer)))
	require.Equal(t, &order{}, pointer, "never nil")
}
