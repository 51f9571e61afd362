package history

// tokens checks that of two leases of a name the one asked for after the other
// was had has the higher token, and that no token is given twice. Where exclusion
// was void, hand-offs inside a process may go on for a moment beside a new grant,
// with tokens below its own; there only grants of the store are compared.
func tokens(leases []*Lease, excused []Window) []Violation {
	var found []Violation
	given := make(map[string]map[int64]*Lease)
	byBegin := make(map[string][]*Lease)
	for _, l := range leases {
		if given[l.Name] == nil {
			given[l.Name] = make(map[int64]*Lease)
		}
		if other := given[l.Name][l.Fence]; other != nil {
			found = append(found,
				violation("token twice", "%q: %s and %s both have %d", l.Name, other.Process,
					l.Process, l.Fence))
		}
		given[l.Name][l.Fence] = l
		if _, ok := excuse(excused, l.Asked, l.Begin); ok && l.Handed {
			continue
		}
		byBegin[l.Name] = append(byBegin[l.Name], l)
	}
	for _, all := range byBegin {
		found = append(found, rising(all)...)
	}
	return found
}

// rising compares each lease with the highest token among those that
// had begun before it was asked for.
func rising(leases []*Lease) []Violation {
	asked := sortedBy(leases, func(l *Lease) int64 { return l.Asked })
	var found []Violation
	var highest *Lease
	next := 0
	for _, l := range asked {
		for ; next < len(leases) && leases[next].Begin < l.Asked; next++ {
			if highest == nil || leases[next].Fence > highest.Fence {
				highest = leases[next]
			}
		}
		if highest != nil && l.Fence <= highest.Fence {
			found = append(found,
				violation("tokens rise", "%q: %s has %d, asked for after %s had %d",
					l.Name, l.Process, l.Fence, highest.Process, highest.Fence))
		}
	}
	return found
}
