package main

import (
	"regexp"
	"strings"
)

var (
	luaCondition = regexp.MustCompile(`^\s*(?:else)?if (.*) then\b`)
	luaCall      = regexp.MustCompile(`^\s*(redis\.p?call\(.*\))\s*$`)
	luaAssign    = regexp.MustCompile(`^\s*([a-z][\w.]*(?:\[.*\])? = .*[^,({ ])\s*$`)
	luaReturn    = regexp.MustCompile(`^\t\s*(return(?: .*[^,({ ])?)\s*$`)
	luaBinary    = regexp.MustCompile(` (<=|>=|==|~=|<|>|\+|-) `)
	luaNumber    = regexp.MustCompile(`\b\d+\b`)
	luaLogic     = regexp.MustCompile(` (and|or) `)
)

var luaSwapped = map[string]string{
	"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "~=",
	"~=": "==", "+": "-", "-": "+",
}

// luaFaults returns every fault that can be planted in a script. It goes by lines, which is enough
// for how ours are written.
func luaFaults(file string, src []byte) []fault {
	d := &finder{file: file, src: src}
	offset := 0
	for line := range strings.Lines(string(src)) {
		d.luaLine(offset, maskLua(strings.TrimRight(line, "\n")))
		offset += len(line)
	}
	return d.faults
}

// maskLua puts blanks for a comment, and the letter s for the text of a string, so that nothing is
// found in them.
func maskLua(line string) string {
	masked := []byte(line)
	var quote byte
	for i := 0; i < len(masked); i++ {
		switch c := masked[i]; {
		case quote != 0 && c == '\\':
			masked[i] = 's'
			i++
			if i < len(masked) {
				masked[i] = 's'
			}
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			masked[i] = 's'
		case c == '\'' || c == '"':
			quote = c
		case strings.HasPrefix(line[i:], "--"):
			return strings.TrimRight(string(masked[:i]), " ")
		}
	}
	return string(masked)
}

// luaLine notes the faults of one line that begins at the offset.
func (d *finder) luaLine(offset int, line string) {
	part := func(from, to int) string { return string(d.src[offset+from : offset+to]) }
	if m := luaCondition.FindStringSubmatchIndex(line); m != nil {
		d.add("negate", offset+m[2], offset+m[3], "not ("+part(m[2], m[3])+")")
		d.luaSides(offset, m[2], m[3], line)
	}
	if m := luaCall.FindStringSubmatchIndex(line); m != nil {
		d.add("drop-call", offset+m[2], offset+m[3], "")
	}
	if m := luaAssign.FindStringSubmatchIndex(line); m != nil && balanced(line) {
		d.add("drop-assign", offset+m[2], offset+m[3], "")
	}
	if m := luaReturn.FindStringSubmatchIndex(line); m != nil && balanced(line) {
		d.add("drop-return", offset+m[2], offset+m[3], "")
	}
	for _, m := range luaBinary.FindAllStringSubmatchIndex(line, -1) {
		op := line[m[2]:m[3]]
		kind := "compare"
		if op == "+" || op == "-" {
			kind = "arithmetic"
		}
		d.add(kind, offset+m[2], offset+m[3], luaSwapped[op])
	}
	for _, m := range luaNumber.FindAllStringIndex(line, -1) {
		if number := part(m[0], m[1]); number == "0" {
			d.add("one", offset+m[0], offset+m[1], "1")
		} else {
			d.add("double", offset+m[0], offset+m[1], "(2 * "+number+")")
		}
	}
}

// luaSides drops one side of each "and" or "or" of a condition that has only one of the two,
// outside of brackets.
func (d *finder) luaSides(offset, from, to int, line string) {
	var words [][]int
	for _, m := range luaLogic.FindAllStringSubmatchIndex(line[from:to], -1) {
		if balanced(line[from : from+m[0]]) {
			words = append(words, []int{from + m[0], from + m[1]})
		}
		if len(words) > 0 && line[from+m[2]:from+m[3]] != strings.TrimSpace(
			line[words[0][0]:words[0][1]],
		) {
			return
		}
	}
	for i, m := range words {
		begin := from
		if i > 0 {
			begin = words[i-1][1]
		}
		d.add("drop-left", offset+begin, offset+m[1], "")
	}
	if len(words) > 0 {
		d.add("drop-right", offset+words[len(words)-1][0], offset+to, "")
	}
}

// balanced reports whether every bracket that is opened is closed.
func balanced(text string) bool {
	return strings.Count(text, "(") == strings.Count(text, ")") &&
		strings.Count(text, "{") == strings.Count(text, "}")
}
