package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// block is a stretch of code that runs as a whole, and whether tests did run it.
type block struct {
	fromLine, fromColumn, toLine, toColumn int
	run                                    bool
}

func (b block) holds(line, column int) bool {
	return (line > b.fromLine || line == b.fromLine && column >= b.fromColumn) &&
		(line < b.toLine || line == b.toLine && column < b.toColumn)
}

// coverage is what the tests of one package run, by file.
type coverage map[string][]block

// readCoverage reads a profile, whose files are named by import path, as those of the module.
func readCoverage(path, module string) (coverage, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := coverage{}
	for line := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n") {
		if strings.HasPrefix(line, "mode:") {
			continue
		}
		name, rest, _ := strings.Cut(line, ":")
		var b block
		var statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.fromLine, &b.fromColumn, &b.toLine,
			&b.toColumn, &statements, &count); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, strconv.Quote(line), err)
		}
		b.run = count > 0
		name = strings.TrimPrefix(name, module+"/")
		c[name] = append(c[name], b)
	}
	return c, nil
}

// passes reports whether the tests come by a place. One that is in no block, such as a constant,
// has them come by.
func (c coverage) passes(file string, line, column int) bool {
	known := false
	for _, b := range c[file] {
		if b.holds(line, column) {
			if b.run {
				return true
			}
			known = true
		}
	}
	return !known
}
