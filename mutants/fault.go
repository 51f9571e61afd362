package main

import (
	"fmt"
	"strings"
)

// fault is one change to one file that compiles, as a rule, and is wrong, as a rule.
type fault struct {
	file         string // slash-separated, from the root of the checkout
	line, column int
	kind         string
	nth          int // counts those of the same kind on the line, from 1
	start, end   int // bytes of the file that text stands in for
	text         string

	// the line that it begins on, trimmed; after is empty if nothing is left of it
	before, after string
}

// id names the fault for as long as the file stays as it is.
func (f fault) id() string {
	id := fmt.Sprintf("%s:%d:%s", f.file, f.line, f.kind)
	if f.nth > 1 {
		id = fmt.Sprintf("%s.%d", id, f.nth)
	}
	return id
}

// is reports whether the fault is meant by name: its ID, or the beginning of it up to the file, the
// line or the kind.
func (f fault) is(name string) bool {
	id := f.id()
	return id == name || strings.HasPrefix(id, name+":") || strings.HasPrefix(id, name+".") &&
		strings.Count(name, ":") > 1
}

// plant returns the file's text with the fault in it.
func (f fault) plant(src []byte) []byte {
	return []byte(string(src[:f.start]) + f.text + string(src[f.end:]))
}

// finder collects the faults of one file.
type finder struct {
	file   string
	src    []byte
	faults []fault
}

// add notes that text in place of the bytes from start to end is a fault.
func (d *finder) add(kind string, start, end int, text string) {
	f := fault{file: d.file, kind: kind, nth: 1, start: start, end: end, text: text}
	head := string(d.src[:start])
	f.line, f.column = 1+strings.Count(head, "\n"), start-strings.LastIndexByte(head, '\n')
	for _, other := range d.faults {
		if other.line == f.line && other.kind == kind {
			f.nth++
		}
	}
	f.before, f.after = lineAt(d.src, start), lineAt(f.plant(d.src), start)
	if strings.Contains(string(d.src[start:end]), "\n") && text == "" {
		f.before, f.after = f.before+" ...", ""
	}
	d.faults = append(d.faults, f)
}

// lineAt returns the line of src around an offset, without the space around it.
func lineAt(src []byte, offset int) string {
	text := string(src)
	from := strings.LastIndexByte(text[:offset], '\n') + 1
	to := len(text)
	if i := strings.IndexByte(text[offset:], '\n'); i >= 0 {
		to = offset + i
	}
	return strings.TrimSpace(text[from:to])
}
