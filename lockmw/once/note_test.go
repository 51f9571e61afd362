package once_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// A note stands where programs of the record's first version read the node's name: one line of 64
// printable bytes at most. The rest of the record is as that version wrote it.
func TestNotesPassForNodeNames(t *testing.T) {
	t.Parallel()
	for _, node := range []string{
		"", "web-1", "web kept=7", strings.Repeat("n", 64), strings.Repeat("é", 32),
	} {
		for _, r := range []once.Record{
			once.NewRecord("begun", 2, renewer.Holder{Node: node, PID: 7}, "sha", "").
				WithNote(24*time.Hour, 1500*time.Millisecond, ""),
			once.NewRecord("done", 2, renewer.Holder{Node: node, PID: 7}, "sha", "{}").
				WithNote(24*time.Hour, 0, once.TagOf[map[string]report]()),
			once.NewRecord("done", 2, renewer.Holder{Node: node, PID: 7}, "sha", "{}").
				WithNote(20*365*24*time.Hour, 0, once.TagOf[report]()),
		} {
			text := r.Encode()
			parts := strings.SplitN(text, "\n", 4)
			require.Len(t, parts, 4)
			require.Regexp(t, `^once1 (begun|done) 2 7$`, parts[0])
			require.LessOrEqual(t, len(parts[1]), 64)
			require.NotContains(t, parts[1], "\uFFFD")
			for _, c := range parts[1] {
				require.True(t, unicode.IsPrint(c), "%q", parts[1])
			}
			require.Equal(t, "sha", parts[2])
			again, err := once.DecodeRecord(text)
			require.NoError(t, err)
			require.Equal(t, text, again.Encode())
			if node == "web-1" {
				require.Equal(t, r.Rest(24*time.Hour), again.Rest(24*time.Hour))
			}
		}
	}
}

// What a record of the first version can't have been meant to say is a node's name.
func TestNoNotes(t *testing.T) {
	t.Parallel()
	for _, node := range []string{
		"web kept=", "web kept=0", "web kept=07", "web kept=x", "web kept=5 pause=", "kept=5",
		"web kept=5 type=T", "web kept=9999999999999",
	} {
		r, err := once.DecodeRecord("once1 begun 1 1\n" + node + "\n\n")
		require.NoError(t, err)
		require.Equal(t, once.NewRecord("begun", 1, renewer.Holder{Node: node, PID: 1}, "", ""), r)
	}
}

// A pause counts from when the record was written, by the store's clock: by how long it still lives.
func TestRest(t *testing.T) {
	t.Parallel()
	r := once.NewRecord("begun", 1, renewer.Holder{}, "", "").WithNote(time.Hour, time.Minute, "")
	for left, want := range map[time.Duration]time.Duration{
		time.Hour: time.Minute, time.Hour - time.Second: 59 * time.Second,
		time.Hour - time.Minute: 0, time.Second: 0, 0: 0, -1: 0, time.Hour + 1: 0,
	} {
		require.Equal(t, want, r.Rest(left), left)
	}
}

type other struct{ Sum int }

// Results of another type are not read as if they were of this one.
func TestResultsOfAnotherType(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		_, err := once.Do(t.Context(), k, "a", answer(report{Pages: 5}))
		require.NoError(t, err)
		got, err := once.Do(t.Context(), k, "a", func(context.Context) (other, error) {
			assert.Fail(t, "it ran")
			return other{}, nil
		})
		require.ErrorIs(t, err, once.ErrRecord)
		require.ErrorContains(t, err, "of type once_test.report#")
		require.ErrorContains(t, err, "this call's of type once_test.other#")
		require.Zero(t, got)
		same, err := once.Do(t.Context(), k, "a", func(context.Context) (*report, error) {
			assert.Fail(t, "it ran")
			return nil, nil
		})
		require.NoError(t, err, "a pointer is as what it points to")
		require.Equal(t, &report{Pages: 5}, same)

		s.PutRecord("former", doneRecord)
		former, err := once.Do(t.Context(), k, "former", func(context.Context) (other, error) {
			return other{}, nil
		})
		require.NoError(t, err, "results of the first version have no type")
		require.Zero(t, former)
	})
}

// Tags are short, and the same for a type on every node.
func TestTags(t *testing.T) {
	t.Parallel()
	type local[T any] struct{ _ T }
	tags := make(map[string]int)
	for i, tag := range []string{
		once.TagOf[report](), once.TagOf[other](), once.TagOf[string](), once.TagOf[[]byte](),
		once.TagOf[any](), once.TagOf[json.RawMessage](), once.TagOf[local[int]](),
		once.TagOf[local[report]](), once.TagOf[map[string][]report](),
		once.TagOf[struct {
			A int `json:"a\n"`
		}](),
	} {
		require.Regexp(t, `^[^\n]{1,64}#[0-9a-f]{6}$`, tag)
		require.NotContains(t, tags, tag)
		tags[tag] = i
	}
	require.Equal(t, once.TagOf[report](), once.TagOf[**report]())
	require.Equal(t, "string#17c165", once.TagOf[string]())
}
