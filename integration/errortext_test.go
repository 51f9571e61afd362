package integration_test

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

// withoutNames are the types of errors that need no method Nameless, and why.
var withoutNames = map[string]string{
	"lockmw/asynq.NotRunError":          "the name is in the error below alone",
	"lockmw/grpcmw.callError":           "a remote caller may read it: see its status",
	"lockmw/httpmw.Error":               "the name is in the error below alone",
	"lockmw/internal/fence.Error":       "its text has no name, and what is below is a driver's",
	"lockmw/internal/repeat.QuotaError": "it is about a caller",
	"lockmw/internal/sqlfault.told":     "its text is written in place of a driver's",
	"lockmw/once/sqlrecord.lateError":   "its text is written in place of a driver's",
	"lockmw/rivermw.notRunError":        "the name is in the error below alone",
}

// Every type of error of the library has a method by which renewer.ErrorText shows it without the
// name of a lock, or is listed above.
func TestErrorsHaveATextWithoutNames(t *testing.T) {
	t.Parallel()
	texts, nameless := map[string]bool{}, map[string]bool{}
	for _, folder := range []string{"renewer", "lockmw", "inspect", "tracing"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", folder), func(
			path string, entry fs.DirEntry, err error,
		) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") ||
				strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			where, _ := filepath.Rel("..", filepath.Dir(path))
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Recv == nil || f.Type.Params.NumFields() > 0 {
					continue
				}
				of := filepath.ToSlash(where) + "." + receiver(f)
				switch f.Name.Name {
				case "Error":
					texts[of] = true
				case "Nameless", "nameless":
					nameless[of] = true
				}
			}
			return nil
		}))
	}
	require.Greater(t, len(texts), 10)
	for of := range texts {
		assert.True(t, nameless[of] || withoutNames[of] != "", "%s has no Nameless() string: "+
			"write its text without the lock's name, or list it with a reason", of)
	}
	for of := range withoutNames {
		assert.True(t, texts[of] && !nameless[of], "%s is listed in vain", of)
	}
}

// receiver is the type that has a method.
func receiver(f *ast.FuncDecl) string {
	of := f.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	name, _ := of.(*ast.Ident)
	return name.String()
}
