package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// inList reports whether a statement is one of a block's, and not part of a head such as that of an
// if.
func inList(n ast.Stmt, stack []ast.Node) bool {
	switch parent := stack[len(stack)-1].(type) {
	case *ast.BlockStmt:
		return true
	case *ast.CaseClause:
		return true
	case *ast.CommClause:
		return parent.Comm != n
	}
	return false
}

// statement notes what a statement's absence, or a change of it, would be.
func (d *goFinder) statement(n ast.Stmt, stack []ast.Node) {
	switch n := n.(type) {
	case *ast.AssignStmt:
		d.assignment(n)
	case *ast.IncDecStmt:
		d.replace("drop-assign", n, "")
		d.swap("arithmetic", n.Tok, n.TokPos)
	case *ast.ExprStmt:
		if call, ok := n.X.(*ast.CallExpr); ok && (isMutex(call) || isMessage(call)) {
			return
		}
		d.replace("drop-call", n, "")
	case *ast.SendStmt:
		d.replace("drop-call", n, "")
	case *ast.GoStmt:
		d.replace("drop-go", n, "")
	case *ast.DeferStmt:
		if !isMutex(n.Call) {
			d.replace("drop-defer", n, "")
		}
	case *ast.BranchStmt:
		if n.Label == nil && n.Tok != token.FALLTHROUGH {
			d.replace("drop-"+n.Tok.String(), n, "")
		}
	case *ast.ReturnStmt:
		d.result(n, stack)
	}
}

// isMutex reports whether a call takes or frees a mutex: without its counterpart it fails or hangs
// in any test.
func isMutex(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && len(call.Args) == 0 &&
		slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, f.Sel.Name)
}

// assignment drops it, but computes what would have been assigned, so that no variable is left
// without use.
func (d *goFinder) assignment(n *ast.AssignStmt) {
	if n.Tok == token.DEFINE || isBlank(n.Lhs) {
		return
	}
	if _, ok := swapped[n.Tok]; ok && !isString(n.Rhs[0]) {
		d.swap("arithmetic", n.Tok, n.TokPos)
	}
	text := ""
	if last := d.textOf(n.Rhs[len(n.Rhs)-1]); len(n.Rhs) == 1 && last != "nil" {
		text = strings.Repeat("_, ", len(n.Lhs)-1) + "_ = " + last
	}
	d.replace("drop-assign", n, text)
}

func isBlank(left []ast.Expr) bool {
	return !slices.ContainsFunc(left, func(x ast.Expr) bool {
		name, ok := x.(*ast.Ident)
		return !ok || name.Name != "_"
	})
}

// result drops a return before the function's end, and the error that one returns.
func (d *goFinder) result(n *ast.ReturnStmt, stack []ast.Node) {
	kind := funcType(stack)
	if len(stack) > 1 {
		if body, ok := stack[len(stack)-2].(ast.Stmt); ok && body != nil {
			d.replace("drop-return", n, "")
		}
	}
	if kind == nil || kind.Results == nil || len(n.Results) != kind.Results.NumFields() {
		return
	}
	types := kind.Results.List
	if name, ok := types[len(types)-1].Type.(*ast.Ident); !ok || name.Name != "error" {
		return
	}
	if last := n.Results[len(n.Results)-1]; d.textOf(last) != "nil" {
		d.replace("nil-error", last, "nil")
	}
}

// funcType returns the signature of the innermost function.
func funcType(stack []ast.Node) *ast.FuncType {
	for _, n := range slices.Backward(stack) {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return n.Type
		case *ast.FuncLit:
			return n.Type
		}
	}
	return nil
}

// clause drops a case of a switch or a select that has others.
func (d *goFinder) clause(n ast.Node, stack []ast.Node) {
	if body, ok := stack[len(stack)-1].(*ast.BlockStmt); ok && len(body.List) > 1 {
		d.replace("drop-case", n, "")
	}
}
