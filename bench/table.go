package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// printer writes until the first error, which it keeps: a table has no use for an error a line.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) Write(b []byte) (int, error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err := p.w.Write(b)
	p.err = err
	return n, err
}

func (p *printer) printf(format string, args ...any) { _, _ = fmt.Fprintf(p, format, args...) }

// target is a figure that must be reached.
type target struct {
	what, measured, must string
	ok                   bool
}

// table is a Markdown table, padded so that it can be read as it is. Its first row is the head.
type table [][]string

func (t *table) add(cells ...string) { *t = append(*t, cells) }

func (t table) String() string {
	widths := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, row := range t {
		for i, cell := range row {
			b.WriteString("| " + cell + strings.Repeat(" ",
				widths[i]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, width := range widths {
				b.WriteString("|" + strings.Repeat("-", width+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

// writeTargets reports whether a target was missed. In a short run none is judged.
func writeTargets(w io.Writer, targets []target, short bool) (missed bool) {
	t := table{{"what", "measured", "must be", ""}}
	for _, g := range targets {
		verdict := "ok"
		switch {
		case short:
			verdict = "not judged: -short"
		case !g.ok:
			verdict, missed = "MISSED", true
		}
		t.add(g.what, g.measured, g.must, verdict)
	}
	_, _ = io.WriteString(w, t.String())
	return missed
}
