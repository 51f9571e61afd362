package tracing_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// What is not exactly a traceparent makes no link, and whatever a
// holder says of itself is short and can be printed.
func TestHostileHolders(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *scene) {
		hostile := script.HostileTraces()
		for _, trace := range hostile {
			s.store.Overwrite("a", store.Holder{
				Node: strings.Repeat("h\x1b", 5000), PID: -1,
				Operation: "\xff\n" + strings.Repeat("o", 10_000), Trace: trace,
			}, time.Minute)
			_, err := s.keeper.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
			require.ErrorIs(t, err, renewer.ErrBusy)
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
		s.store.Script(script.Acquire, script.Taken(store.Holder{}, time.Minute),
			script.Taken(store.Holder{Trace: theirTrace}, time.Minute))
		for range 2 {
			_, err := s.keeper.Acquire(t.Context(), renewer.Request{Name: "a", Try: true})
			require.ErrorIs(t, err, renewer.ErrBusy)
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
