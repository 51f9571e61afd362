package wire_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/wire"
)

func TestFence(t *testing.T) {
	t.Parallel()
	for _, fence := range []int64{1, 42, wire.MaxFence} {
		got, ok := wire.ParseFence(wire.FormatFence(fence))
		require.True(t, ok)
		require.Equal(t, fence, got)
	}
	require.Equal(t, int64(9007199254740991), int64(wire.MaxFence))
	require.NotEqual(t, float64(wire.MaxFence-1), float64(wire.MaxFence),
		"what has only floating point tells them apart")
	for _, s := range []string{
		"", "0", "-1", "+1", "01", " 1", "1 ", "1.0", "0x1", "1e3",
		"9007199254740992", "9223372036854775807", "9223372036854775808", "١",
	} {
		_, ok := wire.ParseFence(s)
		require.False(t, ok, "%q", s)
	}
}

func FuzzParseFence(f *testing.F) {
	f.Add("42")
	f.Add("-0")
	f.Add("9007199254740991")
	f.Add("9007199254740992")
	f.Fuzz(func(t *testing.T, s string) {
		if fence, ok := wire.ParseFence(s); ok {
			require.Positive(t, fence)
			require.Equal(t, fence, int64(float64(fence)))
			require.LessOrEqual(t, fence, int64(wire.MaxFence))
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
