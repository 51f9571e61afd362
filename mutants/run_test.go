package main

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// checkout makes a module of these files, with git, and returns its root.
func checkout(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "init", "-q").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return root
}

// runOn runs the program on a checkout.
func runOn(t *testing.T, root string, args ...string) (code int, out string, err error) {
	t.Helper()
	none := filepath.Join(root, "equivalent.txt")
	if _, err := os.Stat(none); err != nil {
		require.NoError(t, os.WriteFile(none, nil, 0o600))
	}
	var buffer bytes.Buffer
	code, err = run(t.Context(),
		append([]string{
			"-root", root, "-equivalent", none, "-packages", "./...", "-tests",
			"./...",
		}, args...), &buffer, &buffer)
	return code, buffer.String(), err
}

var small = map[string]string{
	"go.mod": "module example.com/small\n\ngo 1.26.0\n",
	"low/low.go": "package low\n\nfunc Tested(a int) bool {\n\treturn a < 3\n}\n\nfunc Used(a " +
		"int) bool {\n\treturn a < 4\n}\n\n" +
		"func Untested(a int) bool {\n\treturn a < 5\n}\n\nfunc Loop(a int) int {\n\tn := " +
		"a\n\tfor n > a-9 {\n\t\tn--\n\t}\n\treturn n\n}\n",
	"low/low_test.go": "package low_test\n\nimport " +
		"(\n\t\"testing\"\n\n\t\"example.com/small/low\"\n)\n\n" +
		"func TestTested(t *testing.T) {\n\tif low.Tested(3) {\n\t\tt.Fatal()\n\t}\n}\n\nfunc " +
		"TestLoop(t *testing.T) {\n\tlow.Loop(0)\n}\n",
	"high/high.go": "package high\n",
	"high/high_test.go": "package high_test\n\nimport " +
		"(\n\t\"testing\"\n\n\t\"example.com/small/low\"\n)\n\n" +
		"func TestUsed(t *testing.T) {\n\tif low.Used(4) {\n\t\tt.Fatal()\n\t}\n}\n",
}

func TestAFaultIsFoundByATestOfIts(t *testing.T) {
	t.Parallel()
	root := checkout(t, small)
	code, out, err := runOn(t, root, "-one", "low/low.go:4:compare", "-require", "100")
	require.NoError(t, err, out)
	assert.Zero(t, code)
	assert.Contains(t, out, "found    low/low.go:4:compare by low TestTested")
	assert.Contains(t, out, "    - return a < 3\n    + return a <= 3\n")
	assert.Contains(t, out, "1 of 1 found (100 %), 0 survived")

	text, err := os.ReadFile(filepath.Join(root, "low", "low.go"))
	require.NoError(t, err)
	assert.Equal(t, small["low/low.go"], string(text), "the checkout is only read")
}

func TestAFaultIsFoundByWhoImportsIt(t *testing.T) {
	t.Parallel()
	code, out, err := runOn(t, checkout(t, small), "-one", "low/low.go:8:compare")
	require.NoError(t, err, out)
	assert.Zero(t, code)
	assert.Contains(t, out, "by high TestUsed")
}

func TestAFaultThatNoTestIsAboutSurvives(t *testing.T) {
	t.Parallel()
	code, out, err := runOn(t, checkout(t, small), "-one", "low/low.go:12:compare", "-require", "1")
	require.Error(t, err)
	assert.Equal(t, 1, code)
	assert.Contains(t, out, "SURVIVED low/low.go:12:compare")
	assert.Contains(t, out, "no test comes by this line")
	assert.Contains(t, out, "go run . -one low/low.go:12:compare\n")
}

func TestAFaultThatHangsIsFound(t *testing.T) {
	t.Parallel()
	_, out, err := runOn(t, checkout(t, small), "-one", "low/low.go:18:drop-assign", "-timeout",
		"10s")
	require.NoError(t, err, out)
	assert.Contains(t, out, "by low (hangs)")
}

func TestWhatDoesNotCompileDoesNotCount(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"go.mod": small["go.mod"],
		"a/a.go": "package a\n\nfunc F() (int, error) {\n\terr := error(nil)\n\treturn 1, " +
			"err\n}\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {\n\tif n, _ " +
			":= F(); n != 1 {\n\t\tt.Fatal()\n\t}\n}\n",
	}
	_, out, err := runOn(t, checkout(t, files), "-seed", "1")
	require.NoError(t, err, out)
	assert.Contains(t, out, "seed 1\n")
	assert.NotContains(t, out, "nil-error")
	assert.Contains(t, out, "did not compile. Seed 1")
}

func TestUnchangedCodeMustPass(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"go.mod": small["go.mod"],
		"a/a.go": "package a\n\nvar X = 1\n",
		"a/a_test.go": "package a\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) " +
			"{\n\tt.Fatal(\"no\", X)\n}\n",
	}
	code, out, err := runOn(t, checkout(t, files))
	require.ErrorContains(t, err, "a: the tests of the unchanged code fail")
	assert.Equal(t, 1, code)
	assert.NotContains(t, out, "SURVIVED")
}

func TestListRunsNothing(t *testing.T) {
	t.Parallel()
	root := checkout(t, small)
	code, one, err := runOn(t, root, "-list", "-seed", "5")
	require.NoError(t, err)
	assert.Zero(t, code)
	_, two, err := runOn(t, root, "-list", "-seed", "5")
	require.NoError(t, err)
	assert.Equal(t, one, two)
	assert.Contains(t, one, "low/low.go:12:")
	assert.Contains(t, one, "\n    - return a < 5\n    + return a < ")
	assert.Contains(t, one, "5 faults of 5. Seed 5.\n")
}

func TestAnEquivalentIsNotPlanted(t *testing.T) {
	t.Parallel()
	var list strings.Builder
	for _, after := range []string{"<= 5", "< (2 * 5)", "< 0", "< (5 / 2)"} {
		list.WriteString("low/low.go\n- return a < 5\n+ return a " + after + "\nwhy: a test\n\n")
	}
	files := map[string]string{
		"equivalent.txt": list.String() + "low/low.go\n- gone\n+\nwhy: a test\n",
	}
	maps.Copy(files, small)
	_, out, err := runOn(t, checkout(t, files), "-list", "-n", "1000", "-seed", "5")
	require.NoError(t, err)
	assert.NotContains(t, out, "low/low.go:12:")
	assert.Contains(t, out, "low/low.go:8:")
	assert.Contains(t, out, "fits no fault (any more): - gone")
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	for _, args := range []string{
		"-n 0", "-jobs 0", "-timeout -1s", "-require 101", "word",
		"-nonsense",
	} {
		var out bytes.Buffer
		code, err := run(t.Context(), strings.Fields(args), &out, &out)
		require.NoError(t, err)
		assert.Equal(t, 2, code, args)
		assert.NotEmpty(t, out.String(), args)
	}
	code, _, err := runOn(t, checkout(t, small), "-one", "low/low.go:999")
	require.ErrorContains(t, err, "there is no fault low/low.go:999")
	assert.Equal(t, 1, code)
}

func TestCancelledRunsEndWhatTheyStarted(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	_, err := run(ctx, []string{"-root", checkout(t, small), "-equivalent", os.DevNull}, &out, &out)
	require.Error(t, err)
}
