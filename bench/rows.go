package main

import (
	"context"
	"fmt"
	"io"
)

// inRows is a section that is made of parts, of which -row chooses some. Each stands by itself.
func inRows(name string, parts []section) section {
	return section{name, func(ctx context.Context, o options, w io.Writer) ([]target, error) {
		var targets []target
		for _, part := range parts {
			if o.row != nil && !o.row.MatchString(part.name) {
				continue
			}
			got, err := part.measure(ctx, o, w)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", part.name, err)
			}
			targets = append(targets, got...)
		}
		return targets, nil
	}}
}

// atLeast and atMost judge a figure. NaN, which is that of nothing, is a miss.
func atLeast(what string, measured, least float64) target {
	return target{
		what, fmt.Sprintf("%.2f", measured), fmt.Sprintf("≥ %.2f", least), measured >= least,
	}
}

func atMost(what string, measured, most float64) target {
	return target{
		what, fmt.Sprintf("%.2f", measured), fmt.Sprintf("≤ %.2f", most), measured <= most,
	}
}
