package idempotent_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
)

func TestTheLeastThatAnIdempotentOptionTakes(t *testing.T) {
	t.Parallel()
	assert.NotPanics(t, func() { idempotent.MaxAnswer(1) })
	assert.NotPanics(t, func() { idempotent.WaitForAnswer(1) })
	assert.NotPanics(t, func() { idempotent.FinishWithin(0) })
}
