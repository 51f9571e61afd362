package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// place is where a figure stands: in the row and the column of a table.
type place struct{ Table, Row, Column string }

// figures are what was measured: at each place a value a round, or several.
type figures struct {
	order  []place
	values map[place][]float64
	notes  []string
	errs   []error // figures that must not be
}

func (f *figures) add(table, row, column string, value float64) {
	if f.values == nil {
		f.values = make(map[place][]float64)
	}
	at := place{table, row, column}
	if _, ok := f.values[at]; !ok {
		f.order = append(f.order, at)
	}
	f.values[at] = append(f.values[at], value)
}

// failed notes that a contestant failed in a round, whose figures are left out.
func (f *figures) failed(table, row string, err error) {
	f.note("%s: %s failed once: %v", table, row, err)
}

// note adds a line below the tables.
func (f *figures) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// at is the median of a place, NaN if nothing was measured there.
func (f *figures) at(table, row, column string) float64 {
	return median(f.values[place{table, row, column}])
}

// median is the middle value, the upper one of two, NaN of none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// number prints three digits of what is small, and whole numbers of what is
// not.
func number(v float64) string {
	switch size := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case size >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case size >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// tables prints each table, its columns in the order in which they were first
// noted.
func (f *figures) tables() string {
	var b strings.Builder
	for _, name := range f.distinct(func(p place) (string, bool) { return p.Table, true }) {
		in := func(field func(place) string) []string {
			return f.distinct(func(p place) (string, bool) { return field(p), p.Table == name })
		}
		columns := in(func(p place) string { return p.Column })
		t := table{append([]string{""}, columns...)}
		rows := in(func(p place) string { return p.Row })
		slices.SortStableFunc(rows, func(a, b string) int {
			last := func(row string) uint { return uint(slices.Index(everyone, row)) } // others
			return cmp.Compare(last(a), last(b))
		})
		for _, row := range rows {
			cells := []string{row}
			for _, column := range columns {
				cells = append(cells, number(f.at(name, row, column)))
			}
			t = append(t, cells)
		}
		fmt.Fprintf(&b, "\n### %s\n\n%s", name, t)
	}
	for _, note := range f.notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	return b.String()
}

// distinct are the different values of a field, of the places that are wanted.
func (f *figures) distinct(field func(place) (value string, wanted bool)) (all []string) {
	for _, at := range f.order {
		if value, wanted := field(at); wanted && !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	return all
}

// table is a Markdown table, padded so that it can be read as it is. Its first
// row is the head.
type table [][]string

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
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			fmt.Fprintf(&b, "| %s%s ", cell, pad)
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

// figure is how a place and its values are passed from one program to another.
type figure struct {
	place

	Values []float64
}

func (f *figures) encode(w io.Writer) error {
	all := make([]figure, 0, len(f.order))
	for _, at := range f.order {
		all = append(all, figure{at, f.values[at]})
	}
	return json.NewEncoder(w).Encode(all)
}
