package out

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"
)

// Columns is how wide a table may be: what COLUMNS says if it is set, and else
// the width of the terminal that w is; 0 if it is none: then nothing is cut.
func Columns(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	columns, _ := Size(w)
	return columns
}

// Size is how many columns and lines the terminal has that w is; 0 and 0 if it
// is none.
func Size(w io.Writer) (columns, lines int) {
	file, ok := w.(*os.File)
	if !ok {
		return 0, 0
	}
	columns, lines, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0, 0
	}
	return columns, lines
}

// IsTerminal reports whether a person sits at a stream, an io.Reader or
// io.Writer.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
