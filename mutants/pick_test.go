package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheSameSeedPlantsTheSame(t *testing.T) {
	t.Parallel()
	var all []fault
	for i := range 300 {
		all = append(all, fault{file: "f", line: i / 3, kind: string(rune('a' + i%3))})
	}
	one := shuffle(all, 1)
	assert.Equal(t, one, shuffle(all, 1))
	assert.NotEqual(t, one, shuffle(all, 2))
	assert.Len(t, one, 100, "one for each line")
	assert.Equal(t, 0, all[0].line, "what was given is left as it is")
}

func TestEquivalents(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "list")
	write := func(text string) { require.NoError(t, os.WriteFile(path, []byte(text), 0o600)) }
	write("# a comment\n\na.go\n- x < 1\n+ x <= 1\nwhy: never 1\n\na.go\n  - g()\n  +\n  why: it " +
		"does nothing\n")
	list, err := readEquivalents(path)
	require.NoError(t, err)
	require.Equal(t, []equivalent{
		{"a.go", "x < 1", "x <= 1", "never 1"},
		{"a.go", "g()", "", "it does nothing"},
	}, list)

	faults := []fault{
		{file: "a.go", line: 7, before: "x < 1", after: "x <= 1"},
		{file: "a.go", line: 7, before: "x < 1", after: "x < 2"},
		{file: "b.go", line: 7, before: "x < 1", after: "x <= 1"},
	}
	rest, stale := withoutEquivalents(faults, list)
	assert.Equal(t, faults[1:], rest)
	assert.Equal(t, list[1:], stale)

	for _, text := range []string{
		"a.go\n- x\n+ y\n", "a.go\n- x\n+ y\nwhy:\n",
		"a.go\n+ y\n- x\nwhy: w\n", "a.go\n- x\n+ y\nwhy: w\nmore\n",
	} {
		write(text)
		_, err := readEquivalents(path)
		require.Error(t, err, text)
	}
}

func TestListOfThisCheckout(t *testing.T) {
	t.Parallel()
	_, err := readEquivalents("equivalent.txt")
	require.NoError(t, err)
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "profile")
	require.NoError(t, os.WriteFile(path, []byte("mode: set\nm/p/a.go:3.10,5.2 1 "+
		"1\nm/p/a.go:7.10,9.2 1 0\nm/p/a.go:7.20,8.2 1 1\n"), 0o600))
	c, err := readCoverage(path, "m")
	require.NoError(t, err)
	assert.True(t, c.passes("p/a.go", 4, 1))
	assert.True(t, c.passes("p/a.go", 3, 10))
	assert.False(t, c.passes("p/a.go", 7, 15))
	assert.True(t, c.passes("p/a.go", 7, 25), "in two blocks, of which one is run")
	assert.True(t, c.passes("p/a.go", 6, 1), "in none")
	assert.True(t, c.passes("p/b.go", 6, 1), "in none")
}
