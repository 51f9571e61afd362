package campaign

import "github.com/lockbeat/lockbeat/nemesis/internal/fault"

// Plan is what a seed's steps are, and the kinds of each.
func Plan(
	field *fault.Field, kinds []fault.Kind, seed, steps uint64, late bool,
) (what [][]string, chosen [][]fault.Kind) {
	n := &nemesis{field: field, seed: seed}
	n.divide(kinds)
	for step := range steps {
		s := n.plan(step, late)
		var texts []string
		for _, f := range s.faults {
			texts = append(texts, f.What+" for "+s.hold.String())
		}
		what, chosen = append(what, texts), append(chosen, s.kinds)
	}
	return what, chosen
}

// LeftOn returns what workers have left on a server.
var LeftOn = leftOn
