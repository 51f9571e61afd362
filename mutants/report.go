package main

import (
	"fmt"
	"strings"
	"time"
)

// String is what is printed of a fault that counts.
func (v verdict) String() string {
	var b strings.Builder
	what, by := "SURVIVED", ""
	if v.found {
		what, by = "found   ", " by "+v.by
	}
	fmt.Fprintf(&b, "%s %s%s, %v\n", what, v.fault.id(), by, v.took.Round(100*time.Millisecond))
	b.WriteString(v.fault.diff())
	for _, note := range v.notes {
		fmt.Fprintf(&b, "      %s\n", note)
	}
	return b.String()
}

// diff shows the line that the fault begins on, before and after.
func (f fault) diff() string {
	return fmt.Sprintf("    - %s\n    + %s\n", f.before, f.after)
}

// score sums the verdicts up.
type score struct{ found, survived, invalid int }

func sum(verdicts []verdict) (s score) {
	for _, v := range verdicts {
		switch {
		case v.invalid:
			s.invalid++
		case v.found:
			s.found++
		default:
			s.survived++
		}
	}
	return s
}

// percent is the share of the faults that were found.
func (s score) percent() float64 {
	if s.found+s.survived == 0 {
		return 100
	}
	return 100 * float64(s.found) / float64(s.found+s.survived)
}

// summary is what is printed at the end.
func summary(verdicts []verdict, seed uint64, took time.Duration) string {
	var b strings.Builder
	s := sum(verdicts)
	fmt.Fprintf(&b, "\n%d of %d found (%.0f %%), %d survived; %d more did not compile. Seed %d, "+
		"%v.\n",
		s.found, s.found+s.survived, s.percent(), s.survived, s.invalid, seed, took.Round(
			time.Second,
		))
	if s.survived > 0 {
		b.WriteString("\nTo plant a survivor again, in mutants/:\n")
	}
	for _, v := range verdicts {
		if !v.invalid && !v.found {
			fmt.Fprintf(&b, "  go run . -one %s\n", v.fault.id())
		}
	}
	return b.String()
}
