package idempotent

import "github.com/lockbeat/lockbeat/lockmw/internal/repeat"

// KeyHeader names a request, so that it can be sent again: 1 to 255 visible ASCII characters, with
// or without the quotes of a structured field's string.
// Source: draft-ietf-httpapi-idempotency-key-header.
const KeyHeader = "Idempotency-Key"

// ErrKey means that a request has no usable [KeyHeader]. The answer is a 400.
var ErrKey = repeat.ErrKey

// ErrQuota means that a request has a new key and its caller has used up
// [MaxStored]. The request has not been carried out. The answer is a 429.
var ErrQuota = repeat.ErrQuota

// ErrTooMany means that a request has a new key, and that as many requests of its caller are being
// carried out as [MaxRunningPerCaller] allows. It has not been carried out. The answer is a 429.
var ErrTooMany = repeat.ErrTooMany
