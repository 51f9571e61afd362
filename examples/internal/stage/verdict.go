package stage

import "strings"

// claim is a row of the table: what was promised, what happened, and
// whether that is as it should be.
type claim struct {
	what, value string
	held        bool
}

// Claim adds a row to the table at the end.
func (s *Stage) Claim(what, value string, held bool) {
	s.claims = append(s.claims, claim{what, value, held})
}

// verdict prints the table and tells whether everything held. faults
// are why the story did not come to its end.
func (s *Stage) verdict(faults []string) bool {
	s.Title("What was promised, and what happened")
	s.Print("")
	broken := faults
	for _, c := range s.claims {
		style, mark := green, "ok"
		if !c.held {
			style, mark = red, "BROKEN"
			broken = append(broken, c.what+": "+c.value)
		}
		s.line(style, "  "+pad(c.what, 58)+" "+pad(c.value, 44)+" "+mark)
	}
	s.Print("")
	if len(broken) > 0 {
		s.line(bold+red, "It did not hold: "+strings.Join(broken, "; ")+".")
		return false
	}
	s.line(bold+green, "All of it held.")
	return true
}

func pad(text string, to int) string {
	return text + strings.Repeat(" ", max(0, to-len([]rune(text))))
}
