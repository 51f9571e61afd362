package out

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Safe returns a foreign text as a terminal may show it: as it is if all of it
// can be seen, and else quoted, with what can't be seen escaped as in Go:
// control bytes, bytes that are no UTF-8, and marks that turn the direction of
// writing.
func Safe(text string) string {
	if plain(text) {
		return text
	}
	return strconv.Quote(text)
}

// plain reports whether a text is shown as it is. Spaces are looked at so that
// what is shown is one text: none at its ends, none doubled, and no quote in
// front, by which it could pass for one that is escaped.
func plain(text string) bool {
	if text == "" || text[0] == '"' || text[0] == ' ' || text[len(text)-1] == ' ' ||
		strings.Contains(text, "  ") || !utf8.ValidString(text) {
		return false
	}
	first, _ := utf8.DecodeRuneInString(text)
	return unicode.IsPrint(first) && !unicode.IsMark(first) && !strings.ContainsFunc(text, hidden)
}

func hidden(r rune) bool { return !unicode.IsPrint(r) }

// Line returns a message as a terminal may show it, in one line: what can't be
// seen in it is escaped. The ends of lines become "; ": they are between
// several errors, or a server's, which must not be able to write a line of its
// own.
func Line(text string) string {
	if !strings.ContainsFunc(text, hidden) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for _, r := range text { // bytes that are no UTF-8 become U+FFFD
		if r == '\n' {
			b.WriteString("; ")
		} else if hidden(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Message tells the user of something, in a line of its own.
func Message(w io.Writer, text string) {
	_, _ = fmt.Fprintln(w, "lockbeat:", Line(strings.TrimPrefix(text, "lockbeat: ")))
}

// Warn warns the user of something, in a line of its own.
func Warn(w io.Writer, text string) {
	Message(w, "warning: "+strings.TrimPrefix(text, "lockbeat: "))
}

// Or is Safe, and a dash for no text.
func Or(text string) string {
	if text == "" {
		return "-"
	}
	return Safe(text)
}

// wide are letters that take two columns of a terminal.
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x1100, Hi: 0x115f, Stride: 1},
		{Lo: 0x2e80, Hi: 0x303e, Stride: 1},
		{Lo: 0x3041, Hi: 0xa4cf, Stride: 1},
		{Lo: 0xa960, Hi: 0xa97f, Stride: 1},
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1},
		{Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1},
		{Lo: 0xffe0, Hi: 0xffe6, Stride: 1},
	},
	R32: []unicode.Range32{
		{Lo: 0x16fe0, Hi: 0x18aff, Stride: 1},
		{Lo: 0x1b000, Hi: 0x1b2ff, Stride: 1},
		{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1},
		{Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1},
		{Lo: 0x1f900, Hi: 0x1f9ff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1},
	},
}

func columnsOf(r rune) int {
	switch {
	case r < unicode.MaxLatin1: // the usual case
		return 1
	case unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r):
		return 0
	case unicode.Is(wide, r):
		return 2
	default:
		return 1
	}
}

// Width is how many columns of a terminal a safe text takes.
func Width(text string) (n int) {
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

// Wrap breaks a safe text into lines of so many columns at most, between words
// where it can; 0 for any number.
func Wrap(text string, most int) string {
	if most < 1 {
		return text
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && Width(line)+1+Width(word) > most {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
		for Width(line) > most { // a word that is longer than a line
			cut, columns := 0, 0
			for i, r := range line {
				if columns += columnsOf(r); columns > most && i > 0 {
					break
				}
				cut = i + utf8.RuneLen(r)
			}
			lines, line = append(lines, line[:cut]), line[cut:]
		}
	}
	return strings.Join(append(lines, line), "\n")
}

// Short cuts a safe text out of its middle until it takes so many columns at
// most: names often begin alike, and differ at their end.
func Short(text string, most int) string {
	if Width(text) <= most {
		return text
	}
	if most < 1 {
		return ""
	}
	runes := []rune(text)
	head, tail := 0, len(runes)
	for left, front := most-1, true; head < tail; front = !front {
		at := tail - 1
		if front {
			at = head
		}
		if left -= columnsOf(runes[at]); left < 0 {
			break
		}
		if front {
			head++
		} else {
			tail--
		}
	}
	return string(runes[:head]) + "…" + string(runes[tail:])
}
