package tracing_test

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
	"github.com/lockbeat/lockbeat/tracing"
)

// hostile are traceparents that a program that can write to the store may have put there.
var hostile = []string{
	"", "00", noLink,
	strings.ToUpper(theirTrace),
	"00-00000000000000000000000000000000-0123456789abcdef-01",
	"00-0123456789abcdef0123456789abcdef-0000000000000000-01",
	"ff-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
	"01-0123456789abcdef0123456789abcdef-0123456789abcdef-01-more",
	"00-0123456789abcdef0123456789abcdeg-0123456789abcdef-01",
	"00-0123456789abcdef0123456789abcdef_0123456789abcdef-01",
	"00-0123456789abcdef0123456789abcdef-0123456789abcdef-05",
	theirTrace + "\n", " " + theirTrace, theirTrace[:54], theirTrace + "-00",
	strings.Repeat("\xff", 55), strings.Repeat("-", 55), strings.Repeat("0", 55),
	strings.Repeat("é", 28)[:55],
	strings.Repeat("x", 10_000), "\x00\x1b[31m",
}

// What is not exactly a traceparent makes no link, and whatever a
// holder says of itself is short and can be printed.
func TestHostileHolders(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		for _, trace := range hostile {
			s.store.Overwrite("a", renewer.Holder{
				Node: strings.Repeat("h\x1b", 5000), PID: -1,
				Operation: "\xff\n" + strings.Repeat("o", 10_000), Trace: trace,
			}, time.Minute)
			_, err := s.keeper.TryAcquire(t.Context(), "a")
			require.ErrorIs(t, err, renewer.ErrHeld)
		}
		refused := s.named("lockbeat.acquire")
		require.Len(t, refused, len(hostile))
		for i, span := range refused {
			require.Empty(t, span.Links(), "%q", hostile[i])
			got := attrs(span.Attributes())
			require.Equal(t, strings.Repeat("h\uFFFD", 16), got["lockbeat.holder.host"])
			require.Equal(t, "\uFFFD\uFFFD"+strings.Repeat("o", 58),
				got["lockbeat.holder.operation"])
			require.Equal(t, int64(-1), got["lockbeat.holder.pid"])
		}
	})
}

// A holder of which nothing is known is no attribute.
func TestAHolderThatIsNotKnown(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		s.store.Script(script.Acquire, script.Taken(renewer.Holder{}, time.Minute),
			script.Taken(renewer.Holder{Trace: theirTrace}, time.Minute))
		for range 2 {
			_, err := s.keeper.TryAcquire(t.Context(), "a")
			require.ErrorIs(t, err, renewer.ErrHeld)
		}
		for i, span := range s.named("lockbeat.acquire") {
			for key := range attrs(span.Attributes()) {
				require.True(t, !strings.HasPrefix(key, "lockbeat.holder.") ||
					key == "lockbeat.holder.held_for" && i == 1, key)
			}
			require.Len(t, span.Links(), i)
		}
	})
}

// Whatever is read leads either to the very span that it names or nowhere.
func FuzzTraceparent(f *testing.F) {
	for _, seed := range append(slices.Clone(hostile), theirTrace, "10"+theirTrace[2:]) {
		f.Add(seed)
	}
	o := tracing.New(noSpans, noMetrics)
	f.Fuzz(func(t *testing.T, s string) {
		sc := o.Remote(s)
		if !sc.IsValid() {
			require.Zero(t, sc)
			return
		}
		require.True(t, sc.IsRemote())
		require.True(t, sc.IsSampled())
		require.Zero(t, sc.TraceState().Len())
		require.Equal(t, s[3:52], traceparent(sc)[3:52],
			"of a later version only what this one knows is read")
		_, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
		require.NoError(t, err)
	})
}

// Whatever a text is, what stands in an attribute is valid, printable
// and short, and plain text is left as it is.
func FuzzPrintable(f *testing.F) {
	for _, seed := range append(slices.Clone(hostile), "web-1", "café", "\uFFFD", "a\u202eb",
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
