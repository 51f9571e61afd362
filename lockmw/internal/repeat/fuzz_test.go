package repeat_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/internal/repeat"
)

var (
	oldKey = bytes.Repeat([]byte("o"), 16)
	newKey = bytes.Repeat([]byte("n"), 32)
)

// sealing returns functions that seal and open an answer to the request with a
// fingerprint, under a name.
func sealing(tb testing.TB, keys ...[]byte) (
	seal func(data []byte, name, input string) []byte,
	open func(data []byte, name, input string) ([]byte, error),
) {
	tb.Helper()
	s, err := repeat.NewSealer("Seal", keys)
	require.NoError(tb, err)
	return func(data []byte, name, input string) []byte {
			return s.Seal(data, repeat.Bound(name, input))
		}, func(data []byte, name, input string) ([]byte, error) {
			return s.Open(data, repeat.Bound(name, input))
		}
}

// What was not sealed by one of the keys, for this request, is not opened, and
// what was is.
func FuzzSealedAnswer(f *testing.F) {
	f.Add([]byte(`{"status":200}`), "name", "input", 0, byte(1))
	f.Add([]byte{}, "", "", 9, byte('\n'))
	f.Add([]byte("lbsealed1\n"), "a", "b,1:c", 37, byte(255))
	f.Fuzz(func(t *testing.T, data []byte, name, input string, at int, flip byte) {
		seal, open := sealing(t, newKey, oldKey)
		_, err := open(data, name, input)
		require.Error(t, err, "it was never sealed")
		_, err = open(append([]byte("lbsealed1\n"), data...), name, input)
		require.Error(t, err)

		sealed := seal(data, name, input)
		require.Len(t, sealed, len(data)+38)
		got, err := open(sealed, name, input)
		require.NoError(t, err)
		require.Equal(t, string(data), string(got))
		for _, other := range [][2]string{
			{name + "x", input},
			{name, input + "x"},
			{input, name},
			{name + input, ""},
		} {
			if other != [2]string{name, input} {
				_, err = open(sealed, other[0], other[1])
				require.Error(t, err, "%q", other)
			}
		}
		_, opensOld := sealing(t, oldKey)
		_, err = opensOld(sealed, name, input)
		require.Error(t, err, "another key")
		if flip != 0 {
			sealed[uint(at)%uint(len(sealed))] ^= flip
			_, err = open(sealed, name, input)
			require.Error(t, err)
		}
	})
}

// The draft's keys are strings of structured fields. Those with escapes or
// parameters were refused.
func TestKeysAsStructuredFields(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`k`: "k", `"k"`: "k", ` "k" `: "k", `"k\"4"`: `k"4`, `"k\\4"`: `k\4`, `"\\\""`: `\"`,
		`"k";a=1`: "k", `"k"; a=1;b`: "k", `"k";a="x;\"y"`: "k", `"k";a=?1;b=:aGk=:;c=a/b:c`: "k",
		`"k";a=-1.5`: "k", `k;a=1`: `k;a=1`, `k"4`: `k"4`, `?1`: "?1",
		``: "", `"`: "", `""`: "", `"k`: "", `"k"x`: "", `"k" ;a=1`: "", `"k";`: "", `"k";A=1`: "",
		`"k";a=`: "", `"k";a="x`: "", `"k\4"`: "", `"k"4"`: "", `"k", "l"`: "", `"a b"`: "",
		`"k";a=1.2345`: "", `"k";a=?2`: "", "\"k\x00\"": "", "\"\u00e9\"": "", `a b`: "",
		`"` + strings.Repeat("k", 255) + `"`: strings.Repeat("k", 255),
		`"` + strings.Repeat("k", 256) + `"`: "",
	} {
		got, err := repeat.Key([]string{text})
		require.Equal(t, want, got, text)
		if want == "" {
			require.ErrorIs(t, err, repeat.ErrKey, text)
		}
	}
}

func FuzzIdempotencyKey(f *testing.F) {
	for _, s := range []string{
		"", "k", `"k"`, `"k";a=1`, `"k"; a ;b`, `"k";a="\"";*b=?0`, `"k";a=:aGk=:`, `k;a=1`, `"a\"b"`, `"a\\"`, `"`, `"a"b`, " k ", "\x00",
		strings.Repeat("k", 256),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		key, err := repeat.Key([]string{text})
		if err != nil {
			require.ErrorIs(t, err, repeat.ErrKey)
			require.Empty(t, key)
			return
		}
		require.NotEmpty(t, key)
		require.LessOrEqual(t, len(key), 255)
		escaped := strings.NewReplacer(`"`, `\"`, `\`, `\\`).Replace(key)
		again, err := repeat.Key([]string{`"` + escaped + `"; a=1;b;c="x\";"`})
		require.NoError(t, err)
		require.Equal(t, key, again, "quoted or not, it is one key")
	})
}
