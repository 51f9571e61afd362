package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/adapter"
	"github.com/lockbeat/lockbeat/lockmw/jobs"
)

// The package's table, row by row: each row is decided before those below it.
func TestDecide(t *testing.T) {
	t.Parallel()
	type situation = jobs.Situation
	const held, down = adapter.RefusalBusy, adapter.RefusalUnavailable
	for name, c := range map[string]struct {
		situation
		want jobs.Outcome
	}{
		"skipped": {
			situation{Refusal: adapter.RefusalSkipped, Ended: true, Last: true, Copies: true},
			jobs.OutcomeDone,
		},
		"replaced": {
			situation{Refusal: adapter.RefusalReplaced, Ended: true, Last: true, Copies: true},
			jobs.OutcomeDone,
		},
		"no usable name": {
			situation{Refusal: adapter.RefusalName, Ended: true, Last: true, Copies: true},
			jobs.OutcomeUnusable,
		},
		"a limit below 0": {
			situation{Refusal: adapter.RefusalMisuse, Ended: true, Last: true, Copies: true},
			jobs.OutcomeFailed,
		},
		"given up by its framework": {
			situation{Refusal: held, Ended: true, Wait: true, Last: true, Copies: true},
			jobs.OutcomeEnded,
		},
		"a place in line":           {situation{Refusal: held, Place: true, Wait: true}, jobs.OutcomeBack},
		"a place, called too early": {situation{Place: true}, jobs.OutcomeBack},
		"a place, last attempt": {
			situation{Refusal: held, Place: true, Wait: true, Last: true, Copies: true},
			jobs.OutcomeCopied,
		},
		"may wait":               {situation{Refusal: held, Wait: true}, jobs.OutcomeAgain},
		"may wait, last attempt": {situation{Refusal: held, Wait: true, Last: true}, jobs.OutcomeAgain},
		"may wait, a copy can go back": {
			situation{Refusal: held, Wait: true, Last: true, Copies: true}, jobs.OutcomeAgain,
		},
		"can go back":          {situation{Refusal: held, Crowded: true}, jobs.OutcomeBack},
		"can go back, no lock": {situation{Refusal: down}, jobs.OutcomeBack},
		"a copy can": {
			situation{Refusal: held, Last: true, Copies: true, Crowded: true}, jobs.OutcomeCopied,
		},
		"a copy can, no lock": {
			situation{Refusal: down, Last: true, Copies: true}, jobs.OutcomeCopied,
		},
		"no slot is free":       {situation{Refusal: held, Last: true, Crowded: true}, jobs.OutcomeFailed},
		"last attempt":          {situation{Refusal: held, Last: true}, jobs.OutcomePause},
		"last attempt, no lock": {situation{Refusal: down, Last: true}, jobs.OutcomePause},
	} {
		assert.Equal(t, c.want, jobs.Decide(c.situation), name)
	}
}
