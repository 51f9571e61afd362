package once_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// Details are read as they were written, and the rest of the record is as it is
// without them.
func TestDetails(t *testing.T) {
	t.Parallel()
	last := store.Holder{Node: "web kept=7", PID: 7}
	for text, r := range map[string]once.Record{
		"": once.NewRecord("begun", 2, last, "sha", ""),
		"kept=86400000 pause=1500": once.NewRecord("begun", 2, last, "sha", "").
			WithDetails(24*time.Hour, 1500*time.Millisecond, ""),
		"kept=86400000 type=once_test.report#" + hashOf[report](): once.NewRecord("done", 2, last,
			"sha", "{}").WithDetails(24*time.Hour, 0, once.TagOf[report]()),
	} {
		head, rest, _ := strings.Cut(r.Encode(), "\n")
		require.Regexp(t, `^once1 (begun|done) 2 7 ?`+regexp.QuoteMeta(text)+`$`, head)
		require.Regexp(t, `^web kept=7\nsha\n(\{\})?$`, rest)
		again, err := once.DecodeRecord(r.Encode())
		require.NoError(t, err)
		require.Equal(t, r, again)
	}
	long := once.NewRecord("done", 1, last, "", "").
		WithDetails(50*365*24*time.Hour, time.Second, once.TagOf[report]())
	again, err := once.DecodeRecord(long.Encode())
	require.NoError(t, err, "a time that is too long to be told is not told")
	require.Zero(t, again.Rest(time.Hour))
}

func hashOf[T any]() string {
	_, hash, _ := strings.Cut(once.TagOf[T](), "#")
	return hash
}

// What this program does not know is skipped, and what it could not have
// written is refused.
func TestDetailsOfOthers(t *testing.T) {
	t.Parallel()
	_, err := once.DecodeRecord("once1 begun 1 1 later=x kept=5\nweb\n\n")
	require.NoError(t, err)
	for _, text := range []string{
		"kept=", "kept=0", "kept=-1", "kept=x", "kept=9999999999999", "pause=", "type=T",
		"type=T#12345", "type=", "=5", "kept", "",
	} {
		_, err := once.DecodeRecord("once1 begun 1 1 " + text + "\nweb\n\n")
		require.Error(t, err, text)
	}
}

// A pause counts from when the record was written, by the store's clock: by how
// long it still lives.
func TestRest(t *testing.T) {
	t.Parallel()
	r := once.NewRecord("begun", 1, store.Holder{}, "", "").WithDetails(time.Hour, time.Minute, "")
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
		require.Regexp(t, `^[^\n ]{1,64}#[0-9a-f]{6}$`, tag)
		require.NotContains(t, tags, tag)
		tags[tag] = i
	}
	require.Equal(t, once.TagOf[report](), once.TagOf[**report]())
	require.Equal(t, "string#17c165", once.TagOf[string]())
}
