package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// goFinder collects the faults of a Go file.
type goFinder struct {
	finder
	tokens *token.File
}

// goFaults returns every fault that can be planted in a Go file, in the order of the text; none if
// it is generated.
func goFaults(file string, src []byte) ([]fault, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(tree) {
		return nil, nil
	}
	d := &goFinder{finder: finder{file: file, src: src}, tokens: set.File(tree.FileStart)}
	ast.PreorderStack(tree, nil, func(n ast.Node, stack []ast.Node) bool {
		if isText(n) {
			return false
		}
		d.visit(n, stack)
		return true
	})
	return d.faults, nil
}

// isText reports whether all that the node says is words, or declarations: a test of a message's
// wording would prove little.
func isText(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return n.Recv != nil &&
			slices.Contains([]string{"Error", "String", "GoString", "LogValue"}, n.Name.Name)
	case *ast.GenDecl:
		return n.Tok == token.IMPORT || n.Tok == token.TYPE
	case *ast.CallExpr:
		return isMessage(n)
	}
	return false
}

// isMessage reports whether a call makes an error's or a log's words.
func isMessage(call *ast.CallExpr) bool {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name == "panic"
	case *ast.SelectorExpr:
		if x, ok := f.X.(*ast.Ident); ok &&
			slices.Contains([]string{"errors", "fmt", "slog"}, x.Name) {
			return !slices.Contains([]string{"Is", "As", "AsType", "Join"}, f.Sel.Name)
		}
		return slices.Contains([]string{"Debug", "Info", "Warn", "Error", "Log", "LogAttrs"},
			strings.TrimSuffix(f.Sel.Name, "Context")) &&
			len(call.Args) > 0
	}
	return false
}

func (d *goFinder) visit(n ast.Node, stack []ast.Node) {
	switch n := n.(type) {
	case *ast.IfStmt:
		d.negate(n.Cond)
	case *ast.BinaryExpr:
		d.binary(n, stack)
	case *ast.BasicLit:
		d.number(n, stack)
	case *ast.SelectorExpr:
		d.unit(n, stack)
	case *ast.Ident:
		d.truth(n)
	case *ast.CaseClause:
		d.clause(n, stack)
	case *ast.CommClause:
		d.clause(n, stack)
	case ast.Stmt:
		if inList(n, stack) {
			d.statement(n, stack)
		}
	}
}

// at returns the bytes that a node stands for.
func (d *goFinder) at(n ast.Node) (start, end int) {
	return d.tokens.Offset(n.Pos()), d.tokens.Offset(n.End())
}

func (d *goFinder) textOf(n ast.Node) string {
	start, end := d.at(n)
	return string(d.src[start:end])
}

// replace notes the fault that has text in the place of n.
func (d *goFinder) replace(kind string, n ast.Node, text string) {
	start, end := d.at(n)
	d.add(kind, start, end, text)
}

func (d *goFinder) negate(cond ast.Expr) {
	if not, ok := cond.(*ast.UnaryExpr); ok && not.Op == token.NOT {
		d.replace("negate", cond, d.textOf(not.X))
		return
	}
	d.replace("negate", cond, "!("+d.textOf(cond)+")")
}

// The operators that one is easily mistaken for.
var swapped = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.ADD: token.SUB, token.SUB: token.ADD,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.INC: token.DEC, token.DEC: token.INC,
}

func (d *goFinder) swap(kind string, op token.Token, pos token.Pos) {
	start := d.tokens.Offset(pos)
	d.add(kind, start, start+len(op.String()), swapped[op].String())
}

func (d *goFinder) binary(n *ast.BinaryExpr, stack []ast.Node) {
	parent := stack[len(stack)-1]
	switch n.Op {
	case token.LAND, token.LOR:
		d.replace("drop-left", n, d.textOf(n.Y))
		d.replace("drop-right", n, d.textOf(n.X))
	case token.LSS, token.LEQ, token.GTR, token.GEQ:
		d.swap("compare", n.Op, n.OpPos)
	case token.EQL, token.NEQ:
		// that would be the condition negated
		if branch, ok := parent.(*ast.IfStmt); !ok || branch.Cond != n {
			d.swap("compare", n.Op, n.OpPos)
		}
	case token.ADD, token.SUB:
		if !isString(n) {
			d.swap("arithmetic", n.Op, n.OpPos)
		}
	}
}

// isString reports whether an operand is a literal string, so that + joins text.
func isString(n ast.Expr) bool {
	switch n := n.(type) {
	case *ast.BasicLit:
		return n.Kind == token.STRING
	case *ast.BinaryExpr:
		return isString(n.X) || isString(n.Y)
	}
	return false
}

func (d *goFinder) truth(n *ast.Ident) {
	switch n.Name {
	case "true":
		d.replace("swap-bool", n, "false")
	case "false":
		d.replace("swap-bool", n, "true")
	}
}

// unit doubles a duration that is a unit alone.
func (d *goFinder) unit(n *ast.SelectorExpr, stack []ast.Node) {
	x, ok := n.X.(*ast.Ident)
	if !ok || x.Name != "time" ||
		!slices.Contains([]string{
			"Nanosecond", "Microsecond", "Millisecond", "Second", "Minute",
			"Hour",
		}, n.Sel.Name) {
		return
	}
	if _, factor := stack[len(stack)-1].(*ast.BinaryExpr); !factor {
		d.replace("double", n, "(2 * "+d.textOf(n)+")")
	}
}

func (d *goFinder) number(n *ast.BasicLit, stack []ast.Node) {
	if n.Kind != token.INT && n.Kind != token.FLOAT || isCapacity(n, stack) || isFiller(n, stack) {
		return
	}
	value, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	if i, intErr := strconv.ParseInt(n.Value, 0, 64); intErr == nil {
		value, err = float64(i), nil
	}
	switch {
	case err != nil:
	case value == 0:
		d.replace("one", n, "1")
	default:
		d.replace("double", n, "(2 * "+n.Value+")")
		d.replace("zero", n, "0")
		if n.Kind == token.FLOAT || value > 1 {
			d.replace("halve", n, "("+n.Value+" / 2)")
		}
	}
}

// isCapacity reports whether a number only says how much room to make for what is to come.
func isCapacity(n *ast.BasicLit, stack []ast.Node) bool {
	for _, node := range slices.Backward(stack) {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			continue
		}
		if f, ok := call.Fun.(*ast.Ident); !ok || f.Name != "make" {
			continue
		}
		_, isMap := call.Args[0].(*ast.MapType)
		return isMap || len(call.Args) == 3 && n.Pos() >= call.Args[2].Pos()
	}
	return false
}

// isFiller reports whether a number is a result beside an error, which says nothing.
func isFiller(n *ast.BasicLit, stack []ast.Node) bool {
	back, ok := stack[len(stack)-1].(*ast.ReturnStmt)
	if !ok || len(back.Results) < 2 || n.Value != "0" {
		return false
	}
	last, isName := back.Results[len(back.Results)-1].(*ast.Ident)
	return !isName || last.Name != "nil" && last.Name != "true"
}
