package once_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/quorum"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

func TestResultsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		text := func(context.Context) (string, error) { return strings.Repeat("x", 99), nil }
		got, err := once.Do(t.Context(), k, "exact", text, once.MaxResult(101))
		require.NoError(t, err)
		require.Len(t, got, 99)

		got, err = once.Do(t.Context(), k, "large", text, once.MaxResult(100))
		require.ErrorIs(t, err, once.ErrResult)
		require.ErrorContains(t, err, "it has 101 bytes, above MaxResult (100)")
		require.Len(t, got, 99, "whose attempt it was has it")
		got, err = once.Do(t.Context(), k, "large", func(context.Context) (string, error) {
			assert.Fail(t, "the work is done")
			return "", nil
		})
		require.ErrorIs(t, err, once.ErrResult)
		require.ErrorContains(t, err, "it has 101 bytes, above MaxResult (100)")
		require.Empty(t, got)

		_, err = once.Do(t.Context(), k, "odd", func(context.Context) (func(), error) {
			return func() {}, nil
		})
		require.ErrorIs(t, err, once.ErrResult)
		require.ErrorContains(t, err, "unsupported type")
		_, err = once.Do(t.Context(), k, "odd", func(context.Context) (func(), error) {
			return nil, errOperation
		})
		require.ErrorIs(t, err, once.ErrResult)
	})
}

// limited is a store that takes so many bytes in a record.
type limited struct {
	*script.Store

	most int
}

func (s limited) Engine() contract.Store { return s }

func (s limited) MaxRecord() int { return s.most }

// A limit for results above the store's is refused before anything is done.
func TestMaxResultAboveTheStores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 4 << 10
		s := limited{script.New(), most}
		k := keeper(t, s, "here")
		_, err := once.Do(t.Context(), k, "a", never(t), once.MaxResult(most-1023))
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, "MaxResult(3073): give 1 or more, and at most what the recorder takes (3072)")
		long := strings.Repeat("n", 512)
		k, err = renewer.New(s, renewer.Config{TTL: renewer.DefaultTTL, Node: long})
		require.NoError(t, err)
		_, err = once.Do(t.Context(), k, "a", func(context.Context) (string, error) {
			return strings.Repeat("x", most-1024-2), nil
		}, once.MaxResult(most-1024), once.Input(strings.Repeat("i", once.MaxInput)))
		require.NoError(t, err)
		require.LessOrEqual(t, len(s.RecordOf("a")), most)
		require.NoError(t, k.Shutdown(t.Context()))
	})
}

func TestUnreadableRecords(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for _, text := range []string{
			"x", "once2 done 1 1\n\n\n7", "once1 done 1 1\n\n\nnot JSON",
			"once1 done 1 1\n\n\n\"text\"",
		} {
			s.PutRecord("a", text)
			got, err := once.Do(t.Context(), k, "a", never(t))
			require.ErrorIs(t, err, once.ErrRecord)
			require.Zero(t, got)
			require.Equal(t, text, s.RecordOf("a"), "nothing is overwritten")
		}
		require.Empty(t, s.Calls(script.Release), "no lock was given")
	})
}

func TestInput(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		begun := make(chan struct{})
		first := make(chan error, 1)
		go func() {
			_, err := once.Do(t.Context(), k, "a", func(context.Context) (report, error) {
				close(begun)
				elapse(time.Minute)
				return report{}, nil
			}, once.Input("one"))
			first <- err
		}()
		<-begun
		for range 2 {
			for _, opts := range [][]once.Option{{once.Input("two")}, nil} {
				_, err := once.Do(t.Context(), k, "a", never(t), opts...)
				require.ErrorIs(t, err, once.ErrInput, "while it runs, and later")
			}
			_, err := once.Do(t.Context(), k, "a", never(t), once.Input("one"))
			require.NoError(t, err)
		}
		require.NoError(t, <-first)
	})
}

func TestCodec(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		marshal := func(v any) ([]byte, error) { return []byte("<" + v.(string) + ">"), nil }
		unmarshal := func(data []byte, v any) error {
			*v.(*string) = strings.Trim(string(data), "<>")
			return nil
		}
		for range 2 {
			got, err := once.Do(t.Context(), k, "a", func(context.Context) (string, error) {
				return "x", nil
			}, once.Codec(marshal, unmarshal))
			require.NoError(t, err)
			require.Equal(t, "x", got)
		}
		require.True(t, strings.HasSuffix(s.RecordOf("a"), "\n<x>"))
	})
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		for says, opt := range map[string]once.Option{
			"once.MaxAttempts(0): give":           once.MaxAttempts(0),
			"once.MaxAttempts(-1): give":          once.MaxAttempts(-1),
			"once.Keep(0s): it is less":           once.Keep(0),
			"once.Keep(-1s): it is less":          once.Keep(-time.Second),
			"once.Keep(14.999s): it is less":      once.Keep(15*time.Second - 1),
			"once.MaxResult(0): give":             once.MaxResult(0),
			"once.Retry(0s, 1ns): give":           once.Retry(0, 1),
			"once.Retry(2ns, 1ns): give":          once.Retry(2, 1),
			"once.Codec needs two functions":      once.Codec(nil, nil),
			"once.Input has 129 bytes":            once.Input(strings.Repeat("x", 129)),
			"once.Input has 1 bytes, or control":  once.Input("\n"),
			"Wait(0s): give how long to wait":     lockmw.Wait(0),
			"MaxHold(0s): give how long":          lockmw.MaxHold(0),
			"once.RecordIn(nil): give a recorder": once.RecordIn(nil),
		} {
			_, err := once.Do(t.Context(), k, "a", never(t), opt)
			require.ErrorIs(t, err, renewer.ErrConfig)
			require.ErrorContains(t, err, says)
		}
		_, err := once.Do[int](t.Context(), nil, "a", func(context.Context) (int, error) {
			return 0, nil
		})
		require.ErrorIs(t, err, renewer.ErrConfig)
		_, err = once.Do[int](t.Context(), k, "a", nil)
		require.ErrorIs(t, err, renewer.ErrConfig)
		for _, name := range []string{"", strings.Repeat("n", contract.MaxName+1)} {
			_, err = once.Do(t.Context(), k, name, never(t))
			require.ErrorIs(t, err, renewer.ErrName)
		}
		_, err = lockmw.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			return once.Do(ctx, k, "a", never(t))
		})
		require.ErrorIs(t, err, renewer.ErrConfig)
		_, err = once.Do(t.Context(), k, "a", func(ctx context.Context) (report, error) {
			return once.Do(ctx, k, "a", never(t))
		}, once.NoRetry())
		require.ErrorIs(t, err, renewer.ErrConfig, "it would wait for itself")
	})
}

// Records over a quorum are no durable memory: two nodes that lose theirs one
// after the other made work that was done be done again, although the third had
// its record all the time.
func TestWorkIsNotRecordedOnAQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node := script.New()
		store, err := quorum.New([]renewer.Store{node, script.New(), script.New()})
		require.NoError(t, err)
		k, err := renewer.New(store, renewer.Config{TTL: renewer.DefaultTTL})
		require.NoError(t, err)
		_, err = once.Do(t.Context(), k, "invoice", func(context.Context) (int, error) {
			t.Error("it ran")
			return 1, nil
		})
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, "redisstore")
		require.Empty(t, node.Calls(script.Acquire), "nothing was taken")
		require.Empty(t, node.Calls(script.Read))
		require.NoError(t, k.Shutdown(t.Context()))
		store.Close()
	})
}
