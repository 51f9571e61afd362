package integration_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// noUsersProgram has the folders of which no user's program is made, nor the command.
var noUsersProgram = []string{
	".git", "bench", "bin", "examples", "integration", "nemesis", "simtest", "testdata", "testutil",
}

// inLog is the argument that is the message, of the methods of a slog.Logger that our code calls;
// and loggers are what it calls such.
var (
	inLog   = map[string]int{"LogAttrs": 2, "Debug": 0, "Info": 0, "Warn": 0, "Error": 0}
	loggers = []string{"l", "log", "logger", "Log"}
)

// logObserver writes messages that functions of its file choose: each of its texts is one that has
// a space in it, and is not said in a panic.
const logObserver = "renewer/log.go"

// chosen are the functions that return what another file logs behind a prefix.
var chosen = map[string][]string{
	"renewer/redisstore/open.go": {"internal/deployment/file.go unsafe"},
	"renewer/redisstore/internal/probe/probe.go": {
		"renewer/redisstore/internal/probe/probe.go warnOfEviction", "renewer/redisstore/internal/probe/probe.go warnOfNoReplicas",
	},
}

// running are the folders of the commands that run for long, and telling the functions by which
// they tell their user of something on standard error, or make the error that ends them.
var (
	running = []string{"cmd/lockbeat/internal/run", "cmd/lockbeat/internal/serve"}
	telling = []string{"warn", "tell", "explain", "Warn", "PrintErrln", "Errorf", "New"}
)

// sources are the files that users' programs and the command are made of, by path.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	all := make(map[string]*ast.File)
	files := token.NewFileSet()
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(noUsersProgram, d.Name()):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
		all[strings.TrimPrefix(filepath.ToSlash(path), "../")] = file
		return err
	}))
	return all
}

// logLines are the messages that the code can log, and "doing=" and what it was that failed. What
// is put into a text is an ellipsis.
func logLines(t *testing.T) map[string]bool {
	t.Helper()
	all := sources(t)
	lines := make(map[string]bool)
	note := func(texts ...string) {
		for _, text := range texts {
			if strings.ContainsFunc(text, unicode.IsLetter) { // else there is nothing to look up
				lines[text] = true
			}
		}
	}
	for path, file := range all {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if text := textOf(n.Value); nameOf(n.Key) == "Doing" && text != "" {
					note("doing=" + text)
				}
			case *ast.CallExpr:
				if isFault(path, n) {
					note("doing=" + textOf(n.Args[0]))
				}
				message := messageOf(path, n)
				switch text := textOf(message); {
				case message == nil:
				case chosen[path] != nil && strings.HasSuffix(text, ": …"):
					for _, from := range chosen[path] {
						name := strings.Fields(from)
						for _, part := range textsIn(all[name[0]], name[1]) {
							note(strings.TrimSuffix(text, "…") + part)
						}
					}
				case text != "":
					note(text)
				default:
					assert.Equal(t, logObserver, path, "this test can't read a message in it")
				}
			}
			return true
		})
	}
	note(textsIn(all[logObserver], "")...)
	return lines
}

// isFault reports whether a call tells the keeper's observer of trouble.
func isFault(path string, call *ast.CallExpr) bool {
	_, isMethod := call.Fun.(*ast.SelectorExpr)
	return isMethod && filepath.Dir(path) == "renewer" && nameOf(call.Fun) == "fault"
}

// messageOf is what a call logs, or tells the user; nil for nothing.
func messageOf(path string, call *ast.CallExpr) ast.Expr {
	name := nameOf(call.Fun)
	method, isMethod := call.Fun.(*ast.SelectorExpr)
	if at, ok := inLog[name]; ok && isMethod && slices.Contains(loggers, nameOf(method.X)) {
		return call.Args[at]
	}
	if slices.Contains(running, filepath.Dir(path)) && slices.Contains(telling, name) {
		for _, arg := range call.Args { // the first may be where it goes
			if textOf(arg) != "" {
				return arg
			}
		}
	}
	return nil
}

// nameOf is the last name of x, x.y or x.y.z.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	default:
		return ""
	}
}

// verb is one of package fmt.
var verb = regexp.MustCompile(`%[a-z]`)

// textOf is the text that an expression makes; "" if there is none in it.
func textOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return verb.ReplaceAllString(text, "…")
	case *ast.BinaryExpr:
		left, right := textOf(e.X), textOf(e.Y)
		if left == "" && right == "" {
			return ""
		}
		if left == "" {
			left = "…"
		}
		if right == "" {
			right = "…"
		}
		return left + right
	case *ast.CallExpr:
		if nameOf(e.Fun) == "Sprintf" {
			return textOf(e.Args[0])
		}
	}
	return ""
}

// textsIn are the texts with a space that the functions of a file with a name, or with any, have in
// them, but for what they say in a panic.
func textsIn(file *ast.File, name string) (all []string) {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || name != "" && f.Name.Name != name {
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && nameOf(call.Fun) == "panic" {
				return false
			}
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			if text := textOf(e); strings.Contains(text, " ") {
				all = append(all, text)
				return false
			}
			return true
		})
	}
	return all
}
