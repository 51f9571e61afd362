package readme_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each package that a program can import has an example, and its text fits on
// two screens.
func TestPackages(t *testing.T) {
	t.Parallel()
	const root = "../.."
	packages := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		switch d.Name() {
		case "internal", "testdata", "examples", "bench", "nemesis", "bin":
			return fs.SkipDir
		}
		if strings.HasPrefix(d.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if exports, examples := count(t, path); exports > 0 {
			packages++
			assert.NotZero(t, examples, "%s has no example", path)
		}
		return nil
	}))
	assert.Greater(t, packages, 15)
}

// count counts the exported declarations of a folder's package and its
// examples.
func count(t *testing.T, folder string) (exports, examples int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	require.NoError(t, err)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		require.NoError(t, err)
		assert.LessOrEqual(t, strings.Count(file.Doc.Text(), "\n"), 90, "%s is too long", path)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasSuffix(path, "_test.go") {
				if strings.HasPrefix(f.Name.Name, "Example") {
					examples++
				}
			}
		}
		if !strings.HasSuffix(path, "_test.go") && ast.FileExports(file) {
			exports++
		}
	}
	return exports, examples
}
