package out

import (
	"io"
	"slices"
	"strings"
)

// Column is one column of a [Table].
type Column struct {
	Title string
	// Right puts numbers below each other.
	Right bool
	// Least is how far its texts may be shortened; 0: not at all. Most is to
	// how much they are in any case, lest one long text widen all lines; 0:
	// they are not.
	Least, Most int
	// Drop is when the column is left out where the table is too wide: the one
	// with the highest number first, and 0 never.
	Drop int
	// Rare leaves the column out where no row has a text in it.
	Rare bool
}

// Table is for people. Its cells are safe texts: see [Safe].
type Table struct {
	Columns []Column
	Rows    [][]string
}

// gap is between two columns.
const gap = "  "

// Write writes the table with lines of so many columns at most, 0 for any
// number: texts are shortened, and then columns left out.
func (t *Table) Write(w io.Writer, most int) error {
	var shown []int
	for i, c := range t.Columns {
		said := func(row []string) bool { return row[i] != "" }
		if !c.Rare || slices.ContainsFunc(t.Rows, said) {
			shown = append(shown, i)
		}
	}
	widths := t.fit(&shown, most)
	var b strings.Builder
	titles := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		titles[i] = c.Title
	}
	t.line(&b, titles, shown, widths)
	for _, row := range t.Rows {
		t.line(&b, row, shown, widths)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// natural is how wide each column is by itself.
func (t *Table) natural() []int {
	widths := make([]int, len(t.Columns))
	for i, c := range t.Columns {
		widths[i] = Width(c.Title)
		for _, row := range t.Rows {
			widths[i] = max(widths[i], Width(row[i]))
		}
		if c.Most > 0 {
			widths[i] = min(widths[i], c.Most)
		}
	}
	return widths
}

// fit returns the widths of the columns shown, and leaves some out of them if
// need be.
func (t *Table) fit(shown *[]int, most int) []int {
	natural := t.natural()
	for {
		widths := slices.Clone(natural)
		over := (len(*shown) - 1) * len(gap)
		for _, i := range *shown {
			over += widths[i]
		}
		if over -= most; most == 0 || t.shrink(widths, *shown, over) {
			return widths
		}
		drop := -1
		for _, i := range *shown {
			if d := t.Columns[i].Drop; d > 0 && (drop < 0 || d > t.Columns[drop].Drop) {
				drop = i
			}
		}
		if drop < 0 {
			return widths
		}
		*shown = slices.DeleteFunc(*shown, func(i int) bool { return i == drop })
	}
}

// shrink takes columns off the widest that may be shortened, and reports
// whether that was enough.
func (t *Table) shrink(widths, shown []int, over int) bool {
	for ; over > 0; over-- {
		widest := -1
		for _, i := range shown {
			least := t.Columns[i].Least
			if least > 0 && widths[i] > least && (widest < 0 || widths[i] > widths[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return false
		}
		widths[widest]--
	}
	return true
}

// line writes one line, without spaces at its end.
func (t *Table) line(b *strings.Builder, cells []string, shown, widths []int) {
	var line strings.Builder
	for n, i := range shown {
		if n > 0 {
			line.WriteString(gap)
		}
		cell := Short(cells[i], widths[i])
		pad := strings.Repeat(" ", widths[i]-Width(cell))
		if t.Columns[i].Right {
			line.WriteString(pad + cell)
		} else {
			line.WriteString(cell + pad)
		}
	}
	b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
}
