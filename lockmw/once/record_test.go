package once_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer/store"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	for _, r := range []once.Record{
		once.NewRecord("begun", 1, store.Holder{Node: "web-1", PID: 4711}, "", ""),
		once.NewRecord("done", 3, store.Holder{Node: "näme 日本", PID: 1}, "sha", "a\nb\n"),
		once.NewRecord("bare", 1, store.Holder{}, "", "too large"),
		once.NewRecord("exhausted", 1<<30, store.Holder{PID: 1 << 30}, strings.Repeat("x", 128),
			""),
		once.NewRecord("given-up", 2, store.Holder{Node: strings.Repeat("n", 64)}, "", ""),
	} {
		got, err := once.DecodeRecord(r.Encode())
		require.NoError(t, err)
		require.Equal(t, r, got)
	}
	none, err := once.DecodeRecord("")
	require.NoError(t, err)
	require.Equal(t, once.Record{}, none)

	odd := once.NewRecord("begun", 1,
		store.Holder{Node: "a\nb\x00" + strings.Repeat("é", 64), PID: -1}, "", "")
	got, err := once.DecodeRecord(odd.Encode())
	require.NoError(t, err)
	require.Equal(t, once.NewRecord("begun", 1,
		store.Holder{Node: "ab" + strings.Repeat("é", 31)}, "", ""), got)
}

func TestForeignRecords(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		" ", "once1", "once1 done 1 1", "once1 done 1 1\n", "once1 done 1 1\nnode\n",
		"once1 done 1 1\nnode\ninput",
		"once2 done 1 1\n\n\n", "ONCE1 done 1 1\n\n\n", "once1 DONE 1 1\n\n\n", "once1  1 1\n\n\n",
		"once1 done 0 1\n\n\n",
		"once1 done -1 1\n\n\n", "once1 done 1 -1\n\n\n", "once1 done x 1\n\n\n",
		"once1 done 1 x\n\n\n", "once1 done 1\n\n\n",
		"once1 done 1 1 1\n\n\n", "once1 done 1073741825 1\n\n\n", "once1 done 1 1073741825\n\n\n",
		"once1 done 99999999999999999999 1\n\n\n",
		"once1 done 1 1\nno\x00de\n\n", "once1 done 1 1\n" + strings.Repeat("n", 65) + "\n\n",
		"once1 done 1 1\n\xff\n\n",
		"once1 done 1 1\n\ninp\x00ut\n", "once1 done 1 1\n\n" + strings.Repeat("x", 129) + "\n",
	} {
		r, err := once.DecodeRecord(text)
		assert.Error(t, err, "%q", text)
		assert.Equal(t, once.Record{}, r)
	}
}

// FuzzDecodeRecord reads what anybody may have written. What is read
// can be written again, and is the same then.
func FuzzDecodeRecord(f *testing.F) {
	f.Add("once1 done 3 4711\nweb-1\nsha\n{}")
	f.Add("once1 begun 1 1\n\n\n")
	f.Add("once1 begun 2 1 kept=86400000 pause=1000\nweb\n\nit has failed")
	f.Add("once1 done 2 1 kept=86400000 type=a.T#0123ef later=x\nweb\n\n{}")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := once.DecodeRecord(text)
		if err != nil {
			require.Equal(t, once.Record{}, r)
			return
		}
		if text == "" {
			return
		}
		again, err := once.DecodeRecord(r.Encode())
		require.NoError(t, err)
		require.Equal(t, r, again)
	})
}
