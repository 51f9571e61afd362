package httpmw_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

func TestTheLeastThatAnIdempotentOptionTakes(t *testing.T) {
	t.Parallel()
	assert.NotPanics(t, func() { httpmw.MaxAnswer(1) })
	assert.NotPanics(t, func() { httpmw.WaitForAnswer(1) })
	assert.NotPanics(t, func() { httpmw.FinishWithin(0) })
}
