package tracing_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/tracing"
)

// Whatever is read leads either to the very span that it names or nowhere.
func FuzzTraceparent(f *testing.F) {
	const good = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"
	for _, seed := range append(script.HostileTraces(), good, "10"+good[2:]) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		sc := tracing.Remote(s)
		if !sc.IsValid() {
			require.Zero(t, sc)
			return
		}
		require.True(t, sc.IsRemote())
		require.True(t, sc.IsSampled())
		require.Zero(t, sc.TraceState().Len())
		require.Equal(t, s[3:52], sc.TraceID().String()+"-"+sc.SpanID().String(),
			"of a later version only what this one knows is read")
		_, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
		require.NoError(t, err)
	})
}

// Whatever a text is, what stands in an attribute is valid, printable
// and short, and plain text is left as it is.
func FuzzPrintable(f *testing.F) {
	for _, seed := range append(script.HostileTraces(), "web-1", "café", "\uFFFD", "a\u202eb",
		"日本") {
		f.Add(seed, 64)
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = max(0, most)
		got := tracing.Printable(s, most)
		require.LessOrEqual(t, len(got), most)
		require.True(t, utf8.ValidString(got))
		clean := true
		for _, r := range s {
			clean = clean && unicode.IsPrint(r) && r != utf8.RuneError
		}
		for _, r := range got {
			require.True(t, unicode.IsPrint(r) || r == utf8.RuneError)
		}
		if clean && len(s) <= most {
			require.Equal(t, s, got)
		}
		require.Equal(t, got, tracing.Printable(got, most))
	})
}
