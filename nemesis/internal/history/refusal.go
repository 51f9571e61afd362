package history

import "time"

// Refusal is a use of the fenced resource with a token below the highest that it had seen.
type Refusal struct {
	At      int64
	Name    string
	Token   int64
	Highest int64
}

// refusals finds those that came while their lease was believed in:
// another owner was there already.
func refusals(refused []Refusal, leases []*Lease, excused []Window) []Violation {
	type key struct {
		name  string
		token int64
	}
	byToken := make(map[key]*Lease, len(leases))
	for _, l := range leases {
		byToken[key{l.Name, l.Fence}] = l
	}
	var found []Violation
	for _, r := range refused {
		l := byToken[key{r.Name, r.Token}]
		if l == nil {
			found = append(found,
				violation("refusal", "%q: token %d was never granted", r.Name, r.Token))
			continue
		}
		if r.At >= l.End {
			continue
		}
		if _, ok := excuse(excused, r.At, r.At); !ok {
			found = append(found,
				violation("refusal",
					"%q: %s was refused with %d after %d, %v before its belief ended",
					r.Name, l.Process, r.Token, r.Highest, time.Duration(l.End-r.At)))
		}
	}
	return found
}
