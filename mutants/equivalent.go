package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// equivalent is a fault that was judged to change nothing that a test could see. It is known by the
// text of its line, so that it is found again after changes elsewhere in the file.
type equivalent struct{ file, before, after, why string }

// readEquivalents reads the list: entries of four lines each, as in the file's head, with an empty
// line between them.
func readEquivalents(path string) ([]equivalent, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list []equivalent
	var entry []string
	for i, line := range append(strings.Split(string(text), "\n"), "") {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "#"):
		case line != "":
			entry = append(entry, line)
		case entry != nil:
			e, err := parseEquivalent(entry)
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, i, err)
			}
			list, entry = append(list, e), nil
		}
	}
	return list, nil
}

func parseEquivalent(lines []string) (e equivalent, err error) {
	if len(lines) != 4 {
		return e, fmt.Errorf("an entry has %d lines; give the file, the line with -, the line "+
			"with +, and the reason", len(lines))
	}
	parts := []*string{&e.file, &e.before, &e.after, &e.why}
	for i, sign := range []string{"", "-", "+", "why:"} {
		rest, ok := strings.CutPrefix(lines[i], sign)
		if *parts[i] = strings.TrimSpace(rest); !ok || *parts[i] == "" && sign != "+" {
			return e, fmt.Errorf("%q is no line that begins with %q and says something", lines[i],
				sign)
		}
	}
	return e, nil
}

// withoutEquivalents returns the other faults, and the entries that name none: their lines have
// changed.
func withoutEquivalents(faults []fault, list []equivalent) (rest []fault, stale []equivalent) {
	used := map[equivalent]bool{}
	rest = slices.DeleteFunc(slices.Clone(faults), func(f fault) bool {
		i := slices.IndexFunc(list, func(e equivalent) bool {
			return e.file == f.file && e.before == f.before && e.after == f.after
		})
		if i >= 0 {
			used[list[i]] = true
		}
		return i >= 0
	})
	stale = slices.DeleteFunc(slices.Clone(list), func(e equivalent) bool { return used[e] })
	return rest, stale
}
