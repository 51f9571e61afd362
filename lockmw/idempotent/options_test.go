package idempotent_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/lockbeat/lockbeat/lockmw/idempotent"
)

func TestTheLeastThatAnOptionTakes(t *testing.T) {
	t.Parallel()
	assert.NotPanics(t, func() {
		idempotent.MaxAnswer(1)
		idempotent.MaxStored(1)
		idempotent.WaitForAnswer(1)
		idempotent.FinishWithin(0)
		idempotent.MaxBody(1)
		idempotent.BodyTimeout(1)
		idempotent.MaxWaiters(1)
		idempotent.RetryAfter(1)
	})
}

// An option that can't be meant says which one it is, and what to give.
func TestOptionsThatCantBeMeant(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]func(){
		"MaxAnswer(0)":           func() { idempotent.MaxAnswer(0) },
		"MaxStored(0)":           func() { idempotent.MaxStored(0) },
		"WaitForAnswer(0s)":      func() { idempotent.WaitForAnswer(0) },
		"FinishWithin(-1s)":      func() { idempotent.FinishWithin(-time.Second) },
		"MaxBody(0)":             func() { idempotent.MaxBody(0) },
		"BodyTimeout(0s)":        func() { idempotent.BodyTimeout(0) },
		"MaxWaiters(0)":          func() { idempotent.MaxWaiters(0) },
		"RetryAfter(0s)":         func() { idempotent.RetryAfter(0) },
		"OnBusy needs":           func() { idempotent.OnBusy(nil) },
		"OnError needs":          func() { idempotent.OnError(nil) },
		"KeepStatus needs":       func() { idempotent.KeepStatus(nil) },
		"BeforeReplay needs":     func() { idempotent.BeforeReplay(nil) },
		"RecordIn needs":         func() { idempotent.RecordIn(nil) },
		"idempotent.Seal needs":  func() { idempotent.Seal() },
		"idempotent.Seal has 3 ": func() { idempotent.Seal([]byte("abc")) },
	} {
		func() {
			defer func() {
				text := fmt.Sprint(recover())
				assert.Contains(t, text, "lockbeat: ")
				assert.Contains(t, text, want)
			}()
			f()
		}()
	}
}
